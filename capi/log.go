package main

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"unsafe"

	"xpwc"
)

// hostCallbacks are the log and progress functions that a handle was opened with. After close they are not called any more.
type hostCallbacks struct {
	logger, progress C.struct_xpwc_callback
	level            C.uint32_t

	mu     sync.Mutex
	idle   sync.Cond
	calls  int // under way
	closed bool

	seen xpwc.Stats // what was logged; guarded by mu
}

func newHostCallbacks(logger, progress, context C.uintptr_t, level C.uint32_t) *hostCallbacks {
	h := &hostCallbacks{
		logger:   C.struct_xpwc_callback{function: logger, context: context},
		progress: C.struct_xpwc_callback{function: progress, context: context},
		level:    level,
	}
	h.idle.L = &h.mu
	return h
}

// opened says for which cache the functions are called. What earlier openings of it came to was told by theirs, but for what
// matters to this one.
func (h *hostCallbacks) opened(c *cache) {
	h.logger.cache, h.progress.cache = c.number(), c.number()
	h.seen = c.Stats()
	h.seen.Damaged, h.seen.LastError, h.seen.Generation = nil, nil, 0
}

// enter is to be followed by leave if it returns true. Not a lock: a callback may call this library, which calls another.
func (h *hostCallbacks) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.calls++
	}
	return !h.closed
}

func (h *hostCallbacks) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	h.idle.Broadcast()
}

// close waits for the callbacks under way.
func (h *hostCallbacks) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for h.calls > 0 {
		h.idle.Wait()
	}
}

func (h *hostCallbacks) logs(level C.uint32_t) bool {
	return h != nil && h.logger.function != 0 && level >= h.level
}

func (h *hostCallbacks) log(level C.uint32_t, message string) {
	if !h.logs(level) || !h.enter() {
		return
	}
	defer h.leave()
	c := C.CString(message)
	defer C.free(unsafe.Pointer(c))
	C.xpwc_call_log(h.logger, level, c)
}

func (h *hostCallbacks) logf(level C.uint32_t, format string, arguments ...any) {
	if h.logs(level) {
		h.log(level, fmt.Sprintf(format, arguments...))
	}
}

// tell passes on the progress of a session.
func (h *hostCallbacks) tell(p xpwc.Progress) {
	if !h.enter() {
		return
	}
	defer h.leave()
	name := C.CString(p.Name)
	defer C.free(unsafe.Pointer(name))
	C.xpwc_call_progress(h.progress, name, C.uint64_t(p.Bytes), C.uint64_t(p.Done), C.uint64_t(p.Total))
}

// report logs what a cache did since the last report: the cache itself only counts.
func (c *cache) report() {
	h := c.host
	if !h.logs(C.XPWC_LOG_ERROR) {
		return
	}
	c.reportDamage()
	h.mu.Lock()
	now, before := c.Stats(), h.seen
	now.DamagedPayloads = before.DamagedPayloads
	h.seen = now
	h.mu.Unlock()

	if now.Damaged != nil && before.Damaged == nil {
		h.logf(C.XPWC_LOG_WARNING, "%s: damaged, so weights are packed afresh and the file is set aside: %v", c.name, now.Damaged)
	}
	if now.LastError != nil && (before.LastError == nil || before.LastError.Error() != now.LastError.Error()) {
		h.logf(C.XPWC_LOG_WARNING, "%s: going on in spite of: %v", c.name, now.LastError)
	}
	for _, reason := range []xpwc.Reason{xpwc.ReasonUnnamed, xpwc.ReasonReadOnly, xpwc.ReasonBusy, xpwc.ReasonVersion, xpwc.ReasonDisk} {
		if n := less(now.Private[reason], before.Private[reason]); n.Entries > 0 {
			h.logf(C.XPWC_LOG_WARNING, "%s: packed %d weights, %d bytes, into private memory: %s", c.name, n.Entries, n.Bytes, reason)
		}
	}
	hits, packed, reused := less(now.Hits, before.Hits), less(now.Packed, before.Packed), less(now.Reused, before.Reused)
	if hits.Entries+packed.Entries+reused.Entries > 0 {
		h.logf(C.XPWC_LOG_INFO, "%s: found %d packed weights, %d bytes; packed %d, %d bytes; packed %d again", c.name,
			hits.Entries, hits.Bytes, packed.Entries, packed.Bytes, reused.Entries)
	}
	if now.Compactions > before.Compactions {
		h.logf(C.XPWC_LOG_INFO, "%s: compacted the file", c.name)
	}
	if now.Generation != before.Generation {
		h.logf(C.XPWC_LOG_INFO, "%s: generation %d is in force: %d entries, %d bytes in the file", c.name,
			now.Generation, now.Entries, now.FileBytes)
	}
}

// reportDamage logs payloads that were found damaged since the last report.
func (c *cache) reportDamage() {
	h := c.host
	h.mu.Lock()
	now, before := c.Stats().DamagedPayloads, h.seen.DamagedPayloads
	h.seen.DamagedPayloads = now
	h.mu.Unlock()
	if now > before {
		h.logf(C.XPWC_LOG_WARNING, "%s: found %d packed weights damaged; they are packed afresh by the next session that needs them",
			c.name, now-before)
	}
}

// A watcher has damage logged when it is found: in the background, there is no call of the host's that would report it.
type watcher struct{ cache atomic.Pointer[cache] }

func (*watcher) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle is told of all that goes wrong; what else there is to say waits for the end of the call.
func (w *watcher) Handle(context.Context, slog.Record) error {
	if c := w.cache.Load(); c != nil {
		c.reportDamage()
	}
	return nil
}

func (w *watcher) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *watcher) WithGroup(string) slog.Handler      { return w }

func less(a, b xpwc.Count) xpwc.Count {
	return xpwc.Count{Entries: a.Entries - b.Entries, Bytes: a.Bytes - b.Bytes}
}
