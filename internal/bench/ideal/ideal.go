// Package ideal is a weights cache that knows every answer in advance: the limit of what a warm load can take, for
// benchmarks.
//
// It records what XNNPACK packs while one runtime is created, and writes it to a file. Another process, which is given
// where the payloads lie in the file, maps it and answers the look-ups of the same runtime in the same order, without
// looking at the key. Nothing checks that it is the same runtime.
package ideal

/*
#cgo CFLAGS: -Wall -Wextra
#include "ideal.h"
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
	c     *C.struct_ideal
	file  *mapped.File // nil for a new one
	known int
}

// New makes a cache that knows no answers and records them. The caller closes it after the runtime is deleted.
func New() (*Cache, error) {
	c := C.ideal_create()
	if c == nil {
		return nil, errors.New("ideal cache: out of memory")
	}
	return &Cache{c: c}, nil
}

// Open makes a cache that knows what Save wrote to path, at the places that Save returned. The file is mapped
// read-only. The error is what the operating system returned, and names the file. The caller closes the cache after the
// runtime is deleted.
func Open(path string, places [][2]int64) (*Cache, error) {
	f, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ideal cache: %w", err)
	}
	c, err := New()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.file, c.known = f, len(places)
	for _, p := range places {
		b := f.Data()[p[0]:][:p[1]]
		if !C.ideal_append(c.c, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))) {
			return nil, errors.Join(errors.New("ideal cache: out of memory"), c.Close())
		}
	}
	return c, nil
}

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return unsafe.Pointer(&c.c.callbacks) }

// CheckAnswers fails if the cache was asked for something else than it knows. XNNPACK packed for each look-up that
// missed.
func (c *Cache) CheckAnswers() error {
	missed, unasked := int(c.c.payloads)-c.known, int(c.c.payloads-c.c.next)
	if missed > 0 || unasked > 0 {
		return fmt.Errorf("the recording is of another runtime: %d look-ups missed, %d answers are left",
			missed, unasked)
	}
	return nil
}

// Save writes the payloads to a new file at path, in place of what is there, and waits for the disk. It returns their
// offsets and sizes there, in the order of their look-ups.
func (c *Cache) Save(path string) (places [][2]int64, err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("ideal cache: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("ideal cache: %w", err)
	}
	const alignment = 128
	var at int64
	for _, p := range unsafe.Slice(c.c.payload, int(c.c.payloads)) {
		b := unsafe.Slice((*byte)(p.address), int(p.size))
		_, wrong := f.WriteAt(b, at)
		err = errors.Join(err, wrong)
		places = append(places, [2]int64{at, int64(len(b))})
		at += (int64(len(b)) + alignment - 1) / alignment * alignment
	}
	if err := errors.Join(err, f.Truncate(max(at, alignment)), f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("ideal cache %s: %w", path, err)
	}
	return places, nil
}

// Close frees the cache and its memory. Closing twice is harmless.
func (c *Cache) Close() error {
	if c.c == nil {
		return nil
	}
	C.ideal_delete(c.c)
	c.c = nil
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
