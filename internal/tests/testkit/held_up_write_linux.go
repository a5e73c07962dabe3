package testkit

import (
	"os"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The interface of userfaultfd (linux/userfaultfd.h).
const (
	uffdAPI      = 0xaa
	uffdioAPI    = 0xc018aa3f
	uffdRegister = 0xc020aa00
	uffdCopy     = 0xc028aa03
	missing      = 1
)

// HoldUpWrite begins to overwrite the file at path, from its beginning, with one call to write, and returns when that
// call has begun and waits for the second half of content, which is several pages long. end has the call go on, and
// returns when it has returned; the end of the test does so too. The test is skipped where readers of a file wait for a
// write (XFS), and where this process may not hold up what the system reads of its memory.
func HoldUpWrite(t testing.TB, path string, content []byte) (end func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	var fs unix.Statfs_t
	require.NoError(t, unix.Fstatfs(int(f.Fd()), &fs))
	uffd, _, failed := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if failed != 0 || fs.Type == unix.XFS_SUPER_MAGIC {
		require.NoError(t, f.Close())
		t.Skip("no write of this process can be held up here:", failed)
	}
	control := func(request uintptr, argument unsafe.Pointer) {
		_, _, failed := unix.Syscall(unix.SYS_IOCTL, uffd, request, uintptr(argument))
		require.Zero(t, failed)
	}
	page := os.Getpagesize()
	whole := make([]byte, (len(content)+page-1)/page*page)
	copy(whole, content)
	held := len(whole) / 2 / page * page
	memory, err := unix.Mmap(-1, 0, len(whole), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	copy(memory[:held], whole)
	second := uint64(uintptr(unsafe.Pointer(&memory[held])))
	control(uffdioAPI, unsafe.Pointer(&[3]uint64{uffdAPI}))
	control(uffdRegister, unsafe.Pointer(&[4]uint64{second, uint64(len(whole) - held), missing}))

	written := make(chan int, 1)
	go func() {
		n, _, _ := unix.Syscall6(unix.SYS_PWRITE64, f.Fd(), uintptr(unsafe.Pointer(&memory[0])), uintptr(len(content)),
			0, 0, 0)
		written <- int(n)
	}()
	var event [32]byte // struct uffd_msg
	_, err = unix.Read(int(uffd), event[:])
	require.NoError(t, err)
	end = sync.OnceFunc(func() {
		src := uint64(uintptr(unsafe.Pointer(&whole[held])))
		control(uffdCopy, unsafe.Pointer(&[5]uint64{second, src, uint64(len(whole) - held)}))
		require.Equal(t, len(content), <-written)
		require.NoError(t, f.Close())
		require.NoError(t, unix.Close(int(uffd)))
		require.NoError(t, unix.Munmap(memory))
	})
	t.Cleanup(end)
	return end
}
