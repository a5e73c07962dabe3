package main

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"xpwc"
)

// hostCallbacks are the log and progress functions of a handle. They are not called after close.
type hostCallbacks struct {
	logger, progress, context C.uintptr_t
	level                     C.uint32_t
	cache                     atomic.Uintptr // cache.number; 0 until the cache is open

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // running callbacks
}

func newHostCallbacks(o *C.struct_xpwc_options_view) *hostCallbacks {
	return &hostCallbacks{logger: o.log, progress: o.progress, context: o.context, level: o.log_level}
}

func (h *hostCallbacks) callback(function C.uintptr_t) C.struct_xpwc_callback {
	return C.struct_xpwc_callback{function: function, context: h.context, cache: C.uintptr_t(h.cache.Load())}
}

// enter begins a callback and returns false after close. Call calls.Done after it. It is not a lock: callbacks nest.
func (h *hostCallbacks) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.calls.Add(1)
	}
	return !h.closed
}

// close prevents further callbacks, and waits for running ones.
func (h *hostCallbacks) close() {
	defer h.calls.Wait() // runs after the unlock
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

func (h *hostCallbacks) logs(level C.uint32_t) bool {
	return h != nil && h.logger != 0 && level >= h.level
}

func (h *hostCallbacks) log(level C.uint32_t, message string) {
	if !h.logs(level) || !h.enter() {
		return
	}
	defer h.calls.Done()
	c := C.CString(hostText(message))
	defer C.free(unsafe.Pointer(c))
	C.xpwc_call_log(h.callback(h.logger), level, c)
}

// reportProgress is an xpwc.Options.Progress. Sessions call it, and a cache with sessions is not closed.
func (h *hostCallbacks) reportProgress(p xpwc.Progress) {
	name := C.CString(p.Name)
	defer C.free(unsafe.Pointer(name))
	C.xpwc_call_progress(h.callback(h.progress), name, C.uint64_t(p.Bytes), C.uint64_t(p.Done), C.uint64_t(p.Total))
}

// hostText converts a text to one line without NULs, with the names of xpwc.h.
func hostText(text string) string { return hostWords.Replace(text) }

var hostWords = strings.NewReplacer("\n", "; ", "\x00", "?",
	"set Options.AllowUnsafeFile", "set XPWC_OPEN_ALLOW_UNSAFE_FILE",
	"give NewSession one", "give xpwc_session_begin one",
	"load it with Eager", "load it with XPWC_LOAD_EAGER",
	"load before Finalize", "load before xpwc_session_finalize",
	"the shape that it is packed as", "packing.dims",
	"in Options.", "in xpwc_options.",
)

// A logHandler writes a cache's records to the host's log. Package xpwc uses no groups, and attributes only of records.
type logHandler struct{ host *hostCallbacks }

// Enabled implements slog.Handler.
func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.host.logs(hostLevel(level))
}

// Handle implements slog.Handler. The line begins with the cache, like the lines of failed calls, and ends with the
// error.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var path, details, reason string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "cache":
			path = "cache " + a.Value.String() + ": "
		case "error":
			reason = ": " + a.Value.String()
		default:
			details += fmt.Sprintf(", %s %v", a.Key, a.Value)
		}
		return true
	})
	h.host.log(hostLevel(r.Level), path+r.Message+details+reason)
	return nil
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(string) slog.Handler { return h }

// hostLevel returns the level of xpwc.h.
func hostLevel(level slog.Level) C.uint32_t {
	switch {
	case level < slog.LevelInfo:
		return C.XPWC_LOG_DEBUG
	case level < slog.LevelWarn:
		return C.XPWC_LOG_INFO
	case level < slog.LevelError:
		return C.XPWC_LOG_WARNING
	default:
		return C.XPWC_LOG_ERROR
	}
}
