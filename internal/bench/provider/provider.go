// Package provider has the weights caches in C that xpwc is measured against. One has XNNPACK pack into one buffer, and
// writes what is in it to a file, as LiteRT does. The other one knows every answer in advance, which is the limit of
// what a warm load can take: it maps such a file and answers the look-ups of the same runtime in the same order,
// without looking at the key. Nothing checks that it is the same runtime.
package provider

/*
#cgo CFLAGS: -Wall -Wextra
#include <stdlib.h>
#include "provider.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"xpwc/internal/mapped"
)

// Cache implements xnnpack.WeightsCache, for one runtime. Its methods must not be called at the same time.
type Cache struct {
	c    *C.struct_provider
	path string
	file *mapped.File // nil until it is mapped
}

var errMemory = errors.New("provider: out of memory")

// indexOf is the path of the index of answers, next to the file.
func indexOf(path string) string { return path + ".index" }

// Create makes a cache that writes a new file, in place of what is there. The caller closes it after the runtime is
// deleted.
func Create(path string) (*Cache, error) {
	name, mode := C.CString(path), C.CString("wb")
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(mode))
	f, err := C.fopen(name, mode)
	if f == nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: err}
	}
	c := C.provider_create(f, nil, 0)
	if c == nil {
		C.fclose(f)
		return nil, errMemory
	}
	return &Cache{c: c, path: path}, nil
}

// Open makes a cache that knows every answer, of a file that another one wrote and kept. The caller closes it after the
// runtime is deleted.
func Open(path string) (*Cache, error) {
	index, err := os.ReadFile(indexOf(path))
	if err != nil {
		return nil, err
	}
	c := C.provider_create(nil, (*C.struct_place)(C.CBytes(index)), C.size_t(len(index)/C.sizeof_struct_place))
	if c == nil {
		return nil, errMemory
	}
	cache := &Cache{c: c, path: path}
	if err := cache.mapFile(); err != nil {
		return nil, errors.Join(err, cache.Close())
	}
	return cache, nil
}

func (c *Cache) mapFile() (err error) {
	if c.file, err = mapped.Open(c.path); err == nil {
		c.c.base = (*C.uint8_t)(unsafe.SliceData(c.file.Data()))
	}
	return err
}

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return unsafe.Pointer(&c.c.callbacks) }

// Finalize maps the file that was written, for the runtime that was created. It does not wait for the disk.
func (c *Cache) Finalize() error {
	if !bool(C.provider_written(c.c)) {
		return fmt.Errorf("%s: packed weights could not be written", c.path)
	}
	return c.mapFile()
}

// Keep writes down where the answers lie, for Open, and returns their number and size.
func (c *Cache) Keep() (answers int, bytes int64, err error) {
	places := unsafe.Slice(c.c.place, int(c.c.places))
	for _, p := range places {
		bytes += int64(p.size)
	}
	index := C.GoBytes(unsafe.Pointer(c.c.place), C.int(len(places)*C.sizeof_struct_place))
	return len(places), bytes, os.WriteFile(indexOf(c.path), index, 0o666)
}

// CheckAnswers fails if a cache that knows every answer was asked for something else.
func (c *Cache) CheckAnswers() error {
	if unused := c.c.places - c.c.next; c.c.missed > 0 || unused > 0 {
		return fmt.Errorf("the file is of another runtime: %d look-ups missed, %d answers are left", c.c.missed, unused)
	}
	return nil
}

// Close frees the cache and its memory. The file stays. Closing twice is harmless.
func (c *Cache) Close() error {
	if c.c == nil {
		return nil
	}
	C.provider_delete(c.c)
	c.c = nil
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
