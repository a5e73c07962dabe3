// Package fd opens files without the network poller of Go's runtime, and starts that poller where it can fail.
//
// The runtime starts its poller when it first needs it: for a file that [os.Open] opens, a timer, a sleep, or the
// garbage collector, which sleeps. The poller takes descriptors (on Linux an epoll and an event descriptor). If none
// are left, the runtime ends the process. A library must not do that to its host.
package fd

import (
	"fmt"
	"sync"
	"time"
)

var poller struct {
	sync.Mutex
	started bool
}

// StartPoller starts the poller if it does not run. Without descriptors for it, the error matches syscall.EMFILE or
// syscall.ENFILE, and the caller can try again. Code that uses timers, or leaves garbage, on behalf of a host calls it
// first.
//
// Descriptors that other threads take in the microseconds between looking whether there are some and the runtime's
// taking them can still be the ones that it would have needed: the runtime offers no way around.
func StartPoller() error {
	poller.Lock()
	defer poller.Unlock()
	if poller.started {
		return nil
	}
	if err := descriptorsLeft(); err != nil {
		return fmt.Errorf("start the network poller of Go's runtime: %w", err)
	}
	time.AfterFunc(time.Hour, func() {}).Stop() // a timer needs the poller as soon as it is set
	poller.started = true
	return nil
}
