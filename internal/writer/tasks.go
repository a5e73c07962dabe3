package writer

import (
	"runtime"
	"sync"
)

// Tasks hashes in the background, on as many goroutines at a time as there are processors. The zero value is ready for
// use.
type Tasks struct {
	mu      sync.Mutex
	queue   []func()
	queued  int // bytes since the last worker was started
	workers int
	running sync.WaitGroup
}

// workerBytes is for how many bytes a worker is started. Waking a thread takes longer than hashing fewer.
const workerBytes = 1 << 20

// Go runs a function that hashes so many bytes in the background, at the latest when somebody waits for it.
func (t *Tasks) Go(bytes int, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, f)
	t.queued += bytes
	if t.queued >= workerBytes && t.workers < runtime.GOMAXPROCS(0) { // the others may be busy for long
		t.startLocked()
	}
}

func (t *Tasks) startLocked() {
	t.queued = 0
	t.workers++
	t.running.Go(t.work)
}

// Wait returns when all functions have returned.
func (t *Tasks) Wait() {
	t.Start()
	t.running.Wait()
}

// Start has functions run that wait for more bytes.
func (t *Tasks) Start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) > 0 && t.workers == 0 {
		t.startLocked()
	}
}

func (t *Tasks) work() {
	defer t.leave() // also if a function of the host's calls runtime.Goexit
	for f := t.next(); f != nil; f = t.next() {
		f()
	}
}

// next takes the next function out of the queue, nil without one.
func (t *Tasks) next() (f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) > 0 {
		f, t.queue = t.queue[0], t.queue[1:]
	}
	return f
}

// leave ends a worker. If a function was added since it took its last one, another worker begins.
func (t *Tasks) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers--
	if len(t.queue) > 0 {
		t.startLocked()
	}
}
