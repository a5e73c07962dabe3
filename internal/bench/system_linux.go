package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"xpwc/internal/console"
)

// memoryOf returns the memory of a process.
func memoryOf(pid int) (figures, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil, err
	}
	status, err := p.NewStatus()
	if err != nil {
		return nil, err
	}
	maps, err := p.ProcSMapsRollup()
	return figures{
		rss: float64(status.VmRSS), rssAnon: float64(status.RssAnon), rssFile: float64(status.RssFile),
		peakBytes: float64(status.VmHWM), dirty: float64(maps.PrivateDirty), pss: float64(maps.Pss),
	}, err
}

// processorTimeOf returns the processor time that a process has used, in all its threads.
func processorTimeOf(pid int) (time.Duration, error) {
	const scheduled = 2 // the clock that the scheduler keeps; a process' clock has the complement of its number
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// churn uses memory in small pages and then in large ones, and frees it, as programs do that a machine runs all the
// time. The host of a virtual machine may have taken back what was free. So who takes memory next, in pages of either
// size, finds what the host has given, and does not wait for it.
func churn(size int64) error {
	for _, pages := range []int{unix.MADV_NOHUGEPAGE, unix.MADV_HUGEPAGE} {
		b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		_ = unix.Madvise(b, pages) // fails where all pages are small
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		if err := unix.Munmap(b); err != nil {
			return err
		}
	}
	return nil
}

func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// dropPages takes a file out of the page cache, once it is on the disk. It fails if much of it stays. Pages that a
// process has just used may stay at first.
func dropPages(path string) error {
	const tries, pause = 20, 50 * time.Millisecond
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var resident int64
	for range tries {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("drop %s from the page cache: %w", path, err)
		}
		var cached unix.Cachestat_t
		err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &cached, 0) // all of it, since Linux 6.5
		resident = int64(cached.Cache) * int64(os.Getpagesize())
		if err != nil || resident <= info.Size()/100 {
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("drop %s from the page cache: %s of it are still there", path, console.Mebibytes(resident))
}

// readDirect returns how long it takes to read a file from its beginning to its end without the page cache, in large
// pieces, each into the same memory.
func readDirect(path string) (took time.Duration, err error) {
	const piece = 8 << 20
	memory, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Munmap(memory)) }()
	start := time.Now()
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Read(memory)
	}
	if !errors.Is(err, io.EOF) {
		return 0, err
	}
	return time.Since(start), nil
}
