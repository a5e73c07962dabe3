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

// churn uses small pages and frees them, as programs do that a machine runs all the time. Who takes memory next finds
// what that left: pages that the host of a virtual machine has or has not taken back, in large pieces or small ones.
func churn(size int64) error {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // fails where there are no others
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return unix.Munmap(b)
}
