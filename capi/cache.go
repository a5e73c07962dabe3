package main

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"xpwc"
)

// A cache is the object of a cache handle: one opening of a path or file.
type cache struct {
	*xpwc.Cache
	name   string      // for messages
	number C.uintptr_t // identifies the cache in callbacks; equal for all handles of one path
	host   *hostCallbacks

	closing atomic.Bool // set by xpwcClose
}

// pathNumbers is the seed of the hashes in cache.number.
var pathNumbers = maphash.MakeSeed()

func (c *cache) ofCache() *cache { return c }

//export xpwcOpen
func xpwcOpen(path *C.xpwc_const_char, o *C.struct_xpwc_options_view, handle *C.xpwc_cache) C.xpwc_status {
	return openCacheWith("xpwc_open", o, handle, func(options *xpwc.Options) (*cache, error) {
		if path == nil {
			return nil, invalid("xpwc_open: path is NULL")
		}
		opened, err := xpwc.Open(C.GoString(path), options)
		if err != nil {
			return nil, err
		}
		c := &cache{Cache: opened, name: "cache in memory", number: C.uintptr_t(uintptr(unsafe.Pointer(opened)))}
		if file := opened.Path(); file != "" {
			c.name, c.number = "cache "+file, C.uintptr_t(maphash.String(pathNumbers, file)|1)
		}
		return c, nil
	})
}

//export xpwcOpenFD
func xpwcOpenFD(descriptor C.int, o *C.struct_xpwc_options_view, handle *C.xpwc_cache) C.xpwc_status {
	return openCacheWith("xpwc_open_fd", o, handle, func(options *xpwc.Options) (*cache, error) {
		if descriptor < 0 {
			return nil, invalid("xpwc_open_fd: file_descriptor is %d", descriptor)
		}
		name := fmt.Sprintf("file descriptor %d", descriptor)
		ours, err := unix.FcntlInt(uintptr(descriptor), unix.F_DUPFD_CLOEXEC, 0) // os.File closes its descriptor
		if err != nil {
			return nil, &fs.PathError{Op: "duplicate", Path: name, Err: err}
		}
		file := os.NewFile(uintptr(ours), name)
		defer file.Close()
		opened, err := xpwc.OpenFile(file, options)
		if err != nil {
			return nil, err
		}
		return &cache{Cache: opened, name: "cache " + name, number: C.uintptr_t(uintptr(unsafe.Pointer(opened)))}, nil
	})
}

// openCacheWith opens a cache with the host's options. function is the caller's name in errors.
func openCacheWith(function string, o *C.struct_xpwc_options_view, handle *C.xpwc_cache,
	open func(*xpwc.Options) (*cache, error),
) C.xpwc_status {
	host := newHostCallbacks(o)
	return call(host, func() error {
		if handle == nil {
			return invalid("%s: cache is NULL", function)
		}
		if bool(C.xpwc_in_callback(0)) {
			return invalid("%s: called by a callback", function)
		}
		options, err := optionsOf(function, o)
		if err != nil {
			return err
		}
		if o.progress != 0 {
			options.Progress = host.reportProgress
		}
		if o.log != 0 {
			options.Logger = slog.New(logHandler{host: host})
		}
		c, err := open(options)
		if err != nil {
			return err
		}
		c.host = host
		host.cache.Store(uintptr(c.number))
		handle.id = newHandle(c)
		host.log(C.XPWC_LOG_INFO, c.name+": opened")
		if unusable := c.Stats().Unusable; unusable != nil {
			setLastError(hostText(unusable.Error()))
		}
		return nil
	})
}

// optionsOf returns the host's options, without its callbacks.
func optionsOf(function string, o *C.struct_xpwc_options_view) (*xpwc.Options, error) {
	const knownFlags = C.XPWC_OPEN_OR_MEMORY<<1 - 1
	switch {
	case !bool(o.valid):
		return nil, invalid("%s: options.struct_size is wrong, or an unknown member is set", function)
	case o.flags&^knownFlags != 0:
		return nil, invalid("%s: unknown flags %#x", function, o.flags&^knownFlags)
	case o.verify > C.XPWC_VERIFY_STRUCTURE:
		return nil, invalid("%s: verify is %d", function, o.verify)
	case o.log_level > C.XPWC_LOG_ERROR:
		return nil, invalid("%s: log_level is %d", function, o.log_level)
	}
	return &xpwc.Options{
		ReadOnly:        o.flags&C.XPWC_OPEN_READ_ONLY != 0,
		Strict:          o.flags&C.XPWC_OPEN_STRICT != 0,
		AllowUnsafeFile: o.flags&C.XPWC_OPEN_ALLOW_UNSAFE_FILE != 0,
		Prefetch:        o.flags&C.XPWC_OPEN_PREFETCH != 0,
		OrMemory:        o.flags&C.XPWC_OPEN_OR_MEMORY != 0,
		Verify:          xpwc.Verify(o.verify),
		WriterWait:      duration(int64(o.writer_wait_ms)),
		MaxBytes:        int64(min(o.max_bytes, math.MaxInt64)),
	}, nil
}

// duration converts milliseconds and clamps them to the range of a time.Duration. All negative values mean the same.
func duration(milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return -1
	}
	return time.Duration(min(milliseconds, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// checkCaller returns an error in a callback of the cache, which could deadlock.
func (c *cache) checkCaller() error {
	if C.xpwc_in_callback(c.number) {
		return invalid("%s: called by a callback of its own", c.name)
	}
	return nil
}

//export xpwcClose
func xpwcClose(handle C.xpwc_cache) C.xpwc_status {
	c, err := resolve[*cache]("cache", handle.id)
	if err != nil {
		return call(nil, func() error { return err })
	}
	closed := false
	status := call(c.host, func() error {
		if c.closing.Swap(true) {
			return fmt.Errorf("cache: %w", errInvalidHandle) // another thread is closing it
		}
		err := contain(c.Close)
		if errors.Is(err, xpwc.ErrInUse) {
			c.closing.Store(false)
			return err
		}
		closed = true
		c.host.log(C.XPWC_LOG_INFO, c.name+": closed")
		return err
	})
	if closed { // after the last message, whose callback may still use the handle
		dropHandle(handle.id)
		c.host.close()
	}
	return status
}

//export xpwcCacheSave
func xpwcCacheSave(handle C.xpwc_cache) C.xpwc_status {
	return withCache(handle, func(c *cache) error { return c.Save() })
}

//export xpwcCacheCompact
func xpwcCacheCompact(handle C.xpwc_cache) C.xpwc_status {
	return withCache(handle, func(c *cache) error { return c.Compact() })
}

//export xpwcCacheTrim
func xpwcCacheTrim(handle C.xpwc_cache) C.xpwc_status {
	return withCache(handle, func(c *cache) error { return c.Trim() })
}

//export xpwcCacheNames
func xpwcCacheNames(handle C.xpwc_cache, names *C.xpwc_strings, count *C.size_t) C.xpwc_status {
	return withCache(handle, func(c *cache) error {
		return returnNames("xpwc_cache_names", c.Names, names, count)
	})
}

// returnNames copies the names of list into C memory, which the host frees with xpwc_names_free. function is the
// caller's name in errors.
func returnNames(function string, list func() []string, names *C.xpwc_strings, count *C.size_t) error {
	if names == nil || count == nil {
		return invalid("%s: names or count is NULL", function)
	}
	entries, size := list(), 0
	for _, s := range entries {
		size += len(s) + 1
	}
	var text *C.char
	array := C.xpwc_strings_new(C.size_t(len(entries)), C.size_t(size), &text)
	if array == nil {
		return fmt.Errorf("no memory for %d names: %w", len(entries), syscall.ENOMEM)
	}
	pointers := unsafe.Slice(array, len(entries))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(text)), size)
	for i, s := range entries {
		pointers[i] = (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes)))
		n := copy(bytes, s)
		bytes[n] = 0
		bytes = bytes[n+1:]
	}
	*names, *count = C.xpwc_strings(unsafe.Pointer(array)), C.size_t(len(entries))
	return nil
}
