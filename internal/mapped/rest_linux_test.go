package mapped

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// writable makes a file and maps it, as a program does that changes it there and never calls write.
func writable(t *testing.T, path string) []byte {
	t.Helper()
	require.NoError(t, os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	data, err := unix.Mmap(int(f.Fd()), 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { require.NoError(t, unix.Munmap(data)) })
	return data
}

// The system notes the time of a change through a mapping with the first one to a page, and not again until the page
// is written.
func TestWhatIsChangedAgainThroughAMappingShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	data := writable(t, path)
	data[0] = 1
	f, err := Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	changed, err := f.Changed() // it waits until another change would show
	require.NoError(t, err)
	require.False(t, changed)
	data[0] = 2
	changed, err = f.Changed()
	require.NoError(t, err)
	require.True(t, changed)
}

// stampOf returns the stamp of a file whose last change was a while ago.
func stampOf(t *testing.T, path string) string {
	t.Helper()
	f, err := Open(path)
	require.NoError(t, err)
	_, err = f.Changed() // it waits until another change would show
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f, err = Open(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	descriptor, err := os.Open(path)
	require.NoError(t, err)
	stamp, err := Stamp(descriptor.Fd())
	require.NoError(t, err)
	require.NoError(t, descriptor.Close())
	require.Equal(t, f.Stamp(), stamp)
	return stamp
}

func TestWhatSomebodyCanWriteToHasNoStamp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600))
	old := stampOf(t, path)
	if old == "" {
		t.Skip("files have no stamps here")
	}
	t.Run("through a descriptor", func(t *testing.T) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		require.Empty(t, stampOf(t, path))
		require.NoError(t, f.Close())
	})
	t.Run("through a mapping", func(t *testing.T) {
		writable(t, path)
		require.Empty(t, stampOf(t, path))
	})
	require.NotEmpty(t, stampOf(t, path))
}

func TestOfAnotherUsersFileOnlyADayShowsThatItIsAtRest(t *testing.T) {
	clock := time.Now()
	for _, c := range []struct {
		others writers
		age    time.Duration
		rests  bool
	}{
		{noWriter, time.Second, true},
		{noWriter, time.Millisecond, false},
		{aWriter, 2 * aDay, false},
		{writersUnknown, aDay, false},
		{writersUnknown, aDay + 1, true},
		{noWriteUnderWay, directWrite, false},
		{noWriteUnderWay, directWrite + 1, true},
	} {
		last := clock.Add(-c.age).UnixNano()
		require.Equal(t, c.rests, State{Changed: last}.rests(c.others, clock), "%+v", c)
		require.Equal(t, c.rests, State{Modified: last}.rests(c.others, clock), "%+v", c)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root has a file of another user, and the right to ask")
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o644))
	require.NoError(t, os.Chown(path, 65534, 65534))
	onWorkerThread(func() { // which ends, and with it the loss of capabilities
		header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		assert.NoError(t, unix.Capset(&header, &data[0]))
		f, err := os.Open(path)
		if assert.NoError(t, err) {
			assert.Equal(t, writersUnknown, leased(f.Fd()))
			assert.NoError(t, f.Close())
		}
	})
}

// onWorkerThread runs a function on a thread that is not the first of the process, and ends the thread. It returns when
// the function has.
func onWorkerThread(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onWorkerThread(run) // meanwhile no other goroutine gets the first thread
			runtime.UnlockOSThread()
			return
		}
		run()
	}()
	<-done
}

// A program that opens the file for writing while this process holds a lease waits for a moment. The system reports it
// with a signal, which ends a process that does not handle it.
func TestWhoOpensAFileForWritingSendsNoSignalAndIsNotKeptWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))
	writes := func() error { // at once, or not at all
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	asked, err := os.Open(path)
	require.NoError(t, err)
	defer asked.Close()
	if leased(asked.Fd()) == writersUnknown {
		t.Skip("the file system has no leases")
	}
	require.NoError(t, writes(), "the lease is not given up")

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(signals)
	leased := func(f *os.File, signal unix.Signal) {
		for _, c := range [][2]int{{unix.F_SETSIG, int(signal)}, {unix.F_SETLEASE, unix.F_RDLCK}} {
			_, err := unix.FcntlInt(f.Fd(), c[0], c[1])
			require.NoError(t, err)
		}
		require.ErrorIs(t, writes(), unix.EWOULDBLOCK)
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		require.NoError(t, err)
	}
	onWorkerThread(func() {
		if unowned(asked.Fd(), unix.Gettid()) == 0 {
			leased(asked, unix.SIGUSR1)
		}
	})
	another, err := os.Open(path)
	require.NoError(t, err)
	defer another.Close()
	leased(another, unix.SIGUSR2)
	require.Equal(t, unix.SIGUSR2, <-signals) // the lower number would come first
	require.Empty(t, signals)
}

// Ext4Image makes a file with an empty ext4 in it, and returns a function that runs a command. The test is skipped
// where it may not mount the file.
func Ext4Image(t *testing.T) (image string, run func(command ...string)) {
	t.Helper()
	run = func(command ...string) {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		if err != nil && command[0] == "mount" {
			t.Skipf("this process may not mount a file: %s", out)
		}
		require.NoError(t, err, "%s: %s", command, out)
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip(err)
	}
	image = filepath.Join(t.TempDir(), "image")
	run("truncate", "-s", "16M", image)
	run("mkfs.ext4", "-q", image)
	return image, run
}

// After a power failure a file has the times that were on the disk: the times of old content if only the new content
// was written.
func TestAfterAPowerFailureTheStampOfOldContentIsNotThatOfNew(t *testing.T) {
	copied, dir := filepath.Join(t.TempDir(), "copied"), t.TempDir()
	image, run := Ext4Image(t)
	mount := func(image string) (unmount func()) {
		run("mount", "-o", "loop,commit=300", image, dir)
		unmount = sync.OnceFunc(func() { run("umount", dir) })
		t.Cleanup(unmount)
		return unmount
	}
	unmount := mount(image)
	path := filepath.Join(dir, "model")
	size := 64 * os.Getpagesize()
	old, new := bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{2}, size)
	require.NoError(t, os.WriteFile(path, old, 0o600))
	unix.Sync()
	stamped := stampOf(t, path)
	require.NotEmpty(t, stamped)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(new)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NotEqual(t, stamped, stampOf(t, path))
	run("cp", "--sparse=always", image, copied) // as the disk is when the power fails
	unmount()
	unmount = mount(copied)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	// Device numbers depend on the mount.
	_, times, _ := strings.Cut(stamped, ":")
	_, newTimes, _ := strings.Cut(stampOf(t, path), ":")
	require.Equal(t, times == newTimes, bytes.Equal(old, content))
	unmount()
}

// What a start pays for knowing that a file is at rest.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	require.NoError(b, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	b.Run("lease", func(b *testing.B) {
		for b.Loop() {
			leased(f.Fd())
		}
	})
	b.Run("flush", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, flush(f.Fd()))
		}
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			m, err := Open(path)
			require.NoError(b, err)
			require.NoError(b, m.Close())
		}
	})
}

// A tmpfs never notes them: its pages are never written.
func TestATmpfsHasNoStamps(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "xpwc-")
	if err != nil {
		t.Skip(err)
	}
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	if fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no tmpfs here")
	}
	path := filepath.Join(dir, "file")
	data := writable(t, path)
	data[0] = 1
	earlier := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, earlier, earlier))
	f, err := Open(path)
	require.NoError(t, err)
	_, err = f.Changed() // it waits until the file could have a stamp
	require.NoError(t, err)
	require.NoError(t, f.Close())
	data[0] = 2
	f, err = Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.Empty(t, f.Stamp())
}
