package mapped_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/mapped"
	"xpwc/internal/tests/testkit"
)

// anothers gives a file to another user, and lets all read it.
func anothers(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	require.NoError(t, os.Chown(path, 65534, 65534))
	require.NoError(t, os.Chmod(path, 0o644))
}

// withoutRights calls do with a file, on a thread that is given no lease of another user's file.
func withoutRights(t *testing.T, path string, do func(f *os.File)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread ends, and what it lost with it
		if unix.Gettid() == os.Getpid() {
			withoutRights(t, path, do) // on another thread, since this one is taken
			runtime.UnlockOSThread()
			return
		}
		header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		require.NoError(t, unix.Capset(&header, &data[0]))
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		do(f)
	}()
	<-done
}

func requireExt4(t *testing.T, path string) {
	t.Helper()
	if mapped.SystemOf(t, path) != "ext4" {
		t.Skip("not on ext4")
	}
}

// later is when an hour has passed since a file was changed.
func later() time.Time { return time.Now().Add(time.Hour) }

func TestAnotherUsersFileRestsOnceNoWriteIsUnderWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := make([]byte, 8*os.Getpagesize())
	require.NoError(t, os.WriteFile(path, content, 0o600))
	requireExt4(t, path)
	anothers(t, path)
	withoutRights(t, path, func(f *os.File) {
		require.False(t, mapped.RestsAt(f.Fd(), time.Now().Add(time.Minute)))
		require.True(t, mapped.RestsAt(f.Fd(), later()))
	})
	end := testkit.HoldUpWrite(t, path, content)
	withoutRights(t, path, func(f *os.File) { require.False(t, mapped.RestsAt(f.Fd(), later())) })
	end()
	withoutRights(t, path, func(f *os.File) { require.True(t, mapped.RestsAt(f.Fd(), later())) })
}

// A program may keep the file mapped, and change it whenever it likes.
func TestAnotherUsersFileThatRestsShowsWhatIsChangedThroughAMapping(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600))
	requireExt4(t, path)
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer w.Close()
	data, err := unix.Mmap(int(w.Fd()), 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(data)) }()
	anothers(t, path)
	withoutRights(t, path, func(f *os.File) {
		data[0] = 1 // from here on the page can be written to without a fault
		require.True(t, mapped.RestsAt(f.Fd(), later()))
		old, err := mapped.StateOf(f.Fd())
		require.NoError(t, err)
		changed, err := mapped.ChangedSince(f.Fd(), old)
		require.NoError(t, err)
		require.False(t, changed)
		data[1] = 2
		changed, err = mapped.ChangedSince(f.Fd(), old)
		require.NoError(t, err)
		require.True(t, changed)
	})
}

const immutableFlag = 0x10 // FS_IMMUTABLE_FL (linux/fs.h)

// setImmutable sets or clears what chattr +i sets.
func setImmutable(t *testing.T, path string, immutable bool) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	require.NoError(t, err)
	flags &^= immutableFlag
	if immutable {
		flags |= immutableFlag
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		t.Skip("files cannot be made immutable here: ", err)
	}
}

func TestAnImmutableFileRestsForEveryUserAndNobodyWritesToIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, os.Getpagesize()), 0o600))
	requireExt4(t, path)
	w, err := os.OpenFile(path, os.O_RDWR, 0) // by whom it is open already
	require.NoError(t, err)
	defer w.Close()
	data, err := unix.Mmap(int(w.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(data)) }()
	data[0] = 1
	setImmutable(t, path, true)
	defer setImmutable(t, path, false)
	_, err = w.WriteAt([]byte{2}, 0)
	require.Error(t, err)
	require.Error(t, mapped.Faultless(func() { data[0] = 2 }))
	require.True(t, mapped.Unchangeable(w.Fd()))
	setImmutable(t, path, false)
	require.False(t, mapped.Unchangeable(w.Fd()))
}

// What is mounted read-only at one place may be written to at another.
func TestAFileRestsForEveryUserOnAReadOnlyFileSystemAndNotOnAReadOnlyMount(t *testing.T) {
	dir, bound := t.TempDir(), t.TempDir()
	var info unix.Statx_t // an emulator may leave the mount out
	err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &info)
	if err != nil || info.Mask&unix.STATX_MNT_ID == 0 || info.Mnt_id == 0 {
		t.Skip("the system does not show which mount a file is on")
	}
	image, run := mapped.Ext4Image(t)
	run("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { run("umount", dir) })
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o644))
	unchangeable := func(path string) bool {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		return mapped.Unchangeable(f.Fd())
	}
	require.False(t, unchangeable(path))
	run("mount", "--bind", dir, bound)
	t.Cleanup(func() { run("umount", bound) })
	run("mount", "-o", "remount,bind,ro", bound)
	require.False(t, unchangeable(filepath.Join(bound, "file")))
	run("mount", "-o", "remount,ro", dir)
	require.True(t, unchangeable(path))
	require.True(t, unchangeable(filepath.Join(bound, "file")))
	require.Equal(t, "ext4", mapped.SystemOf(t, path))
}
