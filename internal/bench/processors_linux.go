package bench

import (
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// processors returns what the processors have done; zero if the system does not say it.
func processors() use {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return use{}
	}
	stat, err := fs.Stat()
	if err != nil {
		return use{}
	}
	t := stat.CPUTotal
	u := use{busy: t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal}
	u.all = u.busy + t.Idle + t.Iowait
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			u.own += time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
		}
	}
	return u
}
