package xnnpack

import (
	"fmt"
	"sync"
	"unsafe"
)

// WeightsCache is where a runtime puts its packed weights, or finds them: an xpwc.Session, or a [HeapWeightsCache].
type WeightsCache interface {
	// Provider returns a *struct xnn_weights_cache_provider in C memory that stays valid until every runtime created
	// with it is deleted.
	Provider() unsafe.Pointer
}

// shared is what runtimes use: it is destroyed when its owner and every runtime let go of it.
type shared struct {
	mu      sync.Mutex
	refs    int
	closed  bool // by its owner
	destroy func()
}

// retain keeps the object for one runtime; false if its owner closed it.
func (s *shared) retain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.refs++
	return true
}

func (s *shared) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refs--
	if s.closed && s.refs == 0 {
		s.destroy()
	}
}

// Close gives the object up. It is freed as soon as the last runtime that was made with it is deleted. Closing twice is
// harmless.
func (s *shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.refs == 0 {
		s.destroy()
	}
}

// Threadpool is a pool of threads that runtimes compute on (pthreadpool). Runtimes can share one: runtimes that are
// used at the same time take turns, operator by operator.
type Threadpool struct {
	shared
	t cThreadpool
	n int
}

// NewThreadpool starts a pool of the given number of threads, the one that calls Invoke included; 0 is one for each
// processor. The error matches InvalidParameter or OutOfMemory. The caller closes the pool.
func NewThreadpool(threads int) (*Threadpool, error) {
	op, subject := "create thread pool", fmt.Sprint(threads, " threads")
	if threads < 0 || threads > 1<<16 {
		return nil, reject(InvalidParameter, op, subject, "the number of threads must be from 0 to %d", 1<<16)
	}
	t, ok := cNewThreadpool(threads)
	if !ok {
		return nil, check(OutOfMemory, op, subject)
	}
	p := &Threadpool{t: t, n: t.threads()}
	p.destroy = t.destroy
	return p, nil
}

// Threads returns the number of threads.
func (p *Threadpool) Threads() int { return p.n }

// Workspace is the memory runtimes keep intermediate values in. Runtimes that are never used at the same time can
// share one; it is then as large as the largest of them needs.
type Workspace struct {
	shared
	w cWorkspace
}

// NewWorkspace makes an empty workspace; it grows as the runtimes that use it need. The caller closes it.
func NewWorkspace() (*Workspace, error) {
	if err := Initialize(); err != nil {
		return nil, err
	}
	w, s := cNewWorkspace()
	if s != Success {
		return nil, check(s, "create workspace", "")
	}
	ws := &Workspace{w: w}
	ws.destroy = w.release
	return ws, nil
}

// GiveBack gives memory that runtimes and workspaces had back to the system. glibc keeps much of it when they are
// deleted, in pieces that the next ones do not fit into, so that a process that loads models again and again would
// grow. It is of use after the last Delete of several.
func GiveBack() { cGiveBack() }

// HeapWeightsCache is XNNPACK's own weights cache: packed weights live in anonymous memory, and equal ones are shared
// by the runtimes created with it. Nothing is kept beyond the process.
type HeapWeightsCache struct {
	shared
	c cWeightsCache
}

// NewWeightsCache makes an empty cache. The caller closes it.
func NewWeightsCache() (*HeapWeightsCache, error) {
	if err := Initialize(); err != nil {
		return nil, err
	}
	c, s := cNewWeightsCache()
	if s != Success {
		return nil, check(s, "create weights cache", "")
	}
	h := &HeapWeightsCache{c: c}
	h.destroy = c.delete
	return h, nil
}

// Finalize closes the cache to new weights; it must be called once, after runtimes are created and before one is set
// up. The error matches InvalidState if the cache is finalized or closed already.
func (c *HeapWeightsCache) Finalize() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return reject(InvalidState, "finalize weights cache", "", "the cache is closed")
	}
	return check(c.c.finalize(), "finalize weights cache", "")
}
