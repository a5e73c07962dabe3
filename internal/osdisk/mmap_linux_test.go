package osdisk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/store"
	"xpwc/internal/tests/thindisk"
)

// A mapping and its descriptor share the kernel's record of write errors. Another descriptor has its own.
func TestAFailedWriteBackIsReportedOnceByAMappingAndItsDescriptor(t *testing.T) {
	for name, sync := range map[string]func(store.File, store.Mapping) error{
		"mapping":    func(_ store.File, m store.Mapping) error { return m.Sync(0, len(m.Data())) },
		"descriptor": func(f store.File, _ store.Mapping) error { return f.Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			dir, ballast := thindisk.Mount(t)
			path := filepath.Join(dir, "file")
			f, err := Files{Insecure: true}.Create(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			const size = 1 << 20
			require.NoError(t, f.Allocate(0, size))
			m, err := f.Map(0, size, true)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Unmap()) }()
			witness, err := Files{Insecure: true}.Open(path, false)
			require.NoError(t, err)
			defer func() { require.NoError(t, witness.Close()) }()
			require.NoError(t, m.Sync(0, 0), "an empty part")
			thindisk.Sync(t, dir)
			thindisk.FillUp(t, ballast)

			for i := range m.Data() {
				m.Data()[i] = 1
			}
			require.Error(t, sync(f, m))
			require.NoError(t, m.Sync(0, size))
			require.NoError(t, f.Flush())
			require.Error(t, witness.(store.FailureTeller).Failed())
		})
	}
}

func TestSuppliedMemoryHasItsPagesAndItsContent(t *testing.T) {
	page := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 8*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	require.NoError(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	if errors.Is(unix.Madvise(memory[:page], unix.MADV_POPULATE_WRITE), unix.EINVAL) {
		t.Skip("this kernel gives pages one by one")
	}
	memory[3*page-1], memory[3*page] = 1, 2
	Supply(memory[3*page-1 : 6*page+1])
	Supply(memory[7*page+1:])
	Supply(nil)
	resident := make([]byte, 8)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)),
		uintptr(unsafe.Pointer(&resident[0])))
	require.Zero(t, errno)
	require.Equal(t, []byte{1, 0, 1, 1, 1, 1, 0, 0}, resident)
	require.Equal(t, []byte{1, 2}, memory[3*page-1:3*page+1])
}
