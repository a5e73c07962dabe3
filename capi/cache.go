package main

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"xpwc"
)

// A cache is what a handle of the host's stands for: one opening of a path.
type cache struct {
	*xpwc.Cache
	name string // for messages
	host *hostCallbacks

	mu     sync.Mutex // held while closing
	closed atomic.Bool

	users    sync.Mutex
	sessions int  // begun with this handle and not ended
	closing  bool // no session begins any more
}

// use counts a session. It is followed by unuse.
func (c *cache) use() error {
	c.users.Lock()
	defer c.users.Unlock()
	if c.closing {
		return fmt.Errorf("cache: %w", errInvalidHandle)
	}
	c.sessions++
	return nil
}

func (c *cache) unuse() {
	c.users.Lock()
	defer c.users.Unlock()
	c.sessions--
}

// unused keeps new sessions away, unless there are some: the callbacks of this handle are theirs.
func (c *cache) unused() error {
	c.users.Lock()
	defer c.users.Unlock()
	if c.sessions > 0 {
		return fmt.Errorf("%s: %d %w", c.name, c.sessions, xpwc.ErrInUse)
	}
	c.closing = true
	return nil
}

//export xpwcOpen
func xpwcOpen(path *C.xpwc_const_char, valid C.bool, flags C.uint32_t, verify C.uint32_t, writerWait C.int64_t,
	maxBytes C.uint64_t, level C.uint32_t, logger, progress, context C.uintptr_t,
	handle *C.xpwc_cache,
) C.xpwc_status {
	host := newHostCallbacks(logger, progress, context, level)
	return call(host, func() error {
		if handle == nil {
			return invalid("xpwc_open: cache is NULL")
		}
		handle.id = 0
		const known = C.XPWC_OPEN_READ_ONLY | C.XPWC_OPEN_STRICT | C.XPWC_OPEN_ALLOW_UNSAFE_FILE | C.XPWC_OPEN_PREFETCH
		switch {
		case bool(C.xpwc_in_callback(0)):
			return invalid("xpwc_open: called by a callback")
		case path == nil:
			return invalid("xpwc_open: path is NULL")
		case !bool(valid):
			return invalid("xpwc_open: options.struct_size is wrong, or an unknown member is set")
		case flags&^known != 0:
			return invalid("xpwc_open: unknown flags %#x", flags&^known)
		case verify > C.XPWC_VERIFY_STRUCTURE:
			return invalid("xpwc_open: verify is %d", verify)
		case level > C.XPWC_LOG_ERROR:
			return invalid("xpwc_open: log_level is %d", level)
		}
		options := xpwc.Options{
			ReadOnly:        flags&C.XPWC_OPEN_READ_ONLY != 0,
			Strict:          flags&C.XPWC_OPEN_STRICT != 0,
			AllowUnsafeFile: flags&C.XPWC_OPEN_ALLOW_UNSAFE_FILE != 0,
			Prefetch:        flags&C.XPWC_OPEN_PREFETCH != 0,
			Verify:          xpwc.Verify(verify),
			WriterWait:      duration(int64(writerWait)),
			MaxBytes:        int64(min(maxBytes, math.MaxInt64)),
		}
		if progress != 0 {
			options.Progress = host.reportProgress
		}
		if logger != 0 {
			options.Logger = slog.New(logHandler{host: host})
		}
		file := C.GoString(path)
		opened, err := xpwc.Open(file, &options)
		if err != nil {
			return err
		}
		c := &cache{Cache: opened, name: "cache " + file, host: host}
		if file == "" {
			c.name = "cache in memory"
		}
		host.cache.Store(uintptr(c.number()))
		handle.id = C.uint64_t(handles.add(c))
		host.log(C.XPWC_LOG_INFO, c.name+": opened")
		return nil
	})
}

// duration keeps within what a time.Duration can be. All negative ones mean the same.
func duration(milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return -1
	}
	return time.Duration(min(milliseconds, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// number stands for the cache in calls of the host's.
func (c *cache) number() C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(c.Cache))) }

// openCache returns the cache of a handle.
func openCache(handle C.xpwc_cache) (*cache, error) {
	c, err := resolve[*cache](&handles, uint64(handle.id))
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if err := c.checkCaller(); err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, fmt.Errorf("cache: %w", errInvalidHandle)
	}
	return c, nil
}

// checkCaller keeps a callback from waiting for what waits for it.
func (c *cache) checkCaller() error {
	if C.xpwc_in_callback(c.number()) {
		return invalid("%s: called by a callback of its own", c.name)
	}
	return nil
}

// withCache calls do with the cache of a handle.
func withCache(handle C.xpwc_cache, do func(*cache) error) C.xpwc_status {
	c, err := openCache(handle)
	if err != nil {
		return call(nil, func() error { return err })
	}
	return call(c.host, func() error { return do(c) })
}

//export xpwc_close
func xpwc_close(handle C.xpwc_cache) C.xpwc_status {
	c, err := openCache(handle)
	if err != nil {
		return call(nil, func() error { return err })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	status := call(c.host, func() error {
		if c.closed.Load() {
			return fmt.Errorf("cache: %w", errInvalidHandle)
		}
		if err := c.unused(); err != nil {
			return err
		}
		err := contain(c.Close)
		c.closed.Store(true)
		c.host.log(C.XPWC_LOG_INFO, c.name+": closed")
		return err
	})
	if c.closed.Load() { // after the last message, whose callback may use the handle to no avail
		handles.remove(uint64(handle.id))
		c.host.close()
	}
	return status
}

//export xpwc_cache_save
func xpwc_cache_save(handle C.xpwc_cache) C.xpwc_status {
	return withCache(handle, func(c *cache) error { return c.Save() })
}

//export xpwc_cache_compact
func xpwc_cache_compact(handle C.xpwc_cache) C.xpwc_status {
	return withCache(handle, func(c *cache) error { return c.Compact() })
}

//export xpwc_cache_trim
func xpwc_cache_trim(handle C.xpwc_cache) C.xpwc_status {
	return withCache(handle, func(c *cache) error { return c.Trim() })
}

//export xpwc_cache_names
func xpwc_cache_names(handle C.xpwc_cache, names *C.xpwc_strings, count *C.size_t) C.xpwc_status {
	zero(names)
	zero(count)
	return withCache(handle, func(c *cache) error {
		if names == nil || count == nil {
			return invalid("xpwc_cache_names: names or count is NULL")
		}
		all := c.Names()
		array, err := newStrings(all)
		if err != nil {
			return err
		}
		*names, *count = array, C.size_t(len(all))
		return nil
	})
}

// zero clears what a function returns through a pointer, if there is one.
func zero[T any](p *T) {
	if p != nil {
		*p = *new(T)
	}
}

// newStrings copies strings into C memory, to be freed with freeStrings or xpwc_names_free.
func newStrings(all []string) (C.xpwc_strings, error) {
	size := 0
	for _, s := range all {
		size += len(s) + 1
	}
	var text *C.char
	array := C.xpwc_strings_new(C.size_t(len(all)), C.size_t(size), &text)
	if array == nil {
		return nil, fmt.Errorf("no memory for %d names: %w", len(all), syscall.ENOMEM)
	}
	pointers := unsafe.Slice(array, len(all))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(text)), size)
	for i, s := range all {
		pointers[i] = (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes)))
		n := copy(bytes, s)
		bytes[n] = 0
		bytes = bytes[n+1:]
	}
	return C.xpwc_strings(unsafe.Pointer(array)), nil
}

func freeStrings(names C.xpwc_strings) { C.free(unsafe.Pointer(names)) }
