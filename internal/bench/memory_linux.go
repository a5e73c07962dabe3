package bench

import (
	"os"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
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

// churn uses memory in small pages and then in large ones, and frees it, as programs do that a machine runs all the time.
// The host of a virtual machine may have taken back what was free. So who takes memory next, in pages of either size,
// finds what the host has given, and does not wait for it.
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
