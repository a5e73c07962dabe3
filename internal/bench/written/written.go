// Package written is a weights cache that has XNNPACK pack into one buffer, and writes what is in it to a file, as
// LiteRT does: an alternative to packing into a mapping of the file, for benchmarks. It looks nothing up and checks
// nothing.
package written

/*
#cgo CFLAGS: -Wall -Wextra
#include "written.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// Cache implements xnnpack.WeightsCache, for one runtime. Its methods must not be called at the same time.
type Cache struct {
	c    *C.struct_written
	file *os.File
}

// Create makes a cache in a new file at path. The error is what the operating system returned. The caller closes the
// cache after the runtime is deleted.
func Create(path string) (*Cache, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("written cache: %w", err)
	}
	c := C.written_create(C.intptr_t(f.Fd()))
	if c == nil {
		return nil, errors.Join(errors.New("written cache: out of memory"), f.Close())
	}
	return &Cache{c: c, file: f}, nil
}

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return unsafe.Pointer(&c.c.callbacks) }

// Finalize maps the file, for the runtime that was created. It does not wait for the disk.
func (c *Cache) Finalize() error {
	if bool(c.c.failed) {
		return fmt.Errorf("written cache %s: packed weights could not be written", c.file.Name())
	}
	if ok, err := C.written_map(c.c); !bool(ok) {
		return fmt.Errorf("map written cache %s: %w", c.file.Name(), err)
	}
	return nil
}

// Close frees the cache and its memory. The file stays. Closing twice is harmless.
func (c *Cache) Close() error {
	if c.c == nil {
		return nil
	}
	C.written_delete(c.c)
	c.c = nil
	return c.file.Close()
}
