package writer

import (
	"runtime"
	"sync"
)

// Tasks runs functions in the background, as many at a time as there are processors. A goroutine for each of a thousand
// small tensors would cost more than their digests. The zero value is ready for use.
type Tasks struct {
	mu      sync.Mutex
	queue   []func()
	workers int
	running sync.WaitGroup
}

// Go runs a function in the background.
func (t *Tasks) Go(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, f)
	if t.workers < runtime.GOMAXPROCS(0) { // the others may be busy for long
		t.workers++
		t.running.Go(t.work)
	}
}

// Wait returns when all functions have returned. No other is started meanwhile.
func (t *Tasks) Wait() { t.running.Wait() }

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
		t.workers++
		t.running.Go(t.work)
	}
}
