// Package ideal is a weights cache that knows every answer in advance: the limit of what a warm load can take, for
// benchmarks.
//
// It records what XNNPACK packs while one runtime is created, and writes it to a file. Another process maps that file
// and answers the look-ups of the same runtime in the same order, without looking at the key. Nothing checks that it is
// the same runtime.
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

// Open makes a cache that knows what Save wrote to path. The file is mapped read-only. The error matches
// ErrNotRecording or what the operating system returned, and names the file. The caller closes the cache after the
// runtime is deleted.
func Open(path string) (*Cache, error) {
	f, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ideal cache: %w", err)
	}
	c, err := New()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.file = f
	if err := c.learn(f.Data()); err != nil {
		return nil, errors.Join(fmt.Errorf("ideal cache %s: %w", path, err), c.Close())
	}
	return c, nil
}

func (c *Cache) learn(data []byte) error {
	places, err := parse(data)
	if err != nil {
		return err
	}
	for _, p := range places {
		b := data[p.Offset : p.Offset+p.Size]
		if !C.ideal_append(c.c, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b))) {
			return errors.New("out of memory")
		}
	}
	c.known = len(places)
	return nil
}

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return unsafe.Pointer(&c.c.callbacks) }

// Misses returns how many look-ups the cache had no answer for. XNNPACK packed for each of them.
func (c *Cache) Misses() int { return int(c.c.payloads) - c.known }

// Unasked returns how many of the known answers no look-up has asked for.
func (c *Cache) Unasked() int { return int(c.c.payloads - c.c.next) }

// Payloads returns the packed weights in the order of their look-ups. They are valid until Close.
func (c *Cache) Payloads() [][]byte {
	var all [][]byte
	for _, p := range unsafe.Slice(c.c.payload, int(c.c.payloads)) {
		all = append(all, unsafe.Slice((*byte)(p.address), int(p.size)))
	}
	return all
}

// Save writes the payloads to a new file at path, in place of what is there, and waits for the disk.
func (c *Cache) Save(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("ideal cache: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("ideal cache: %w", err)
	}
	if err := errors.Join(write(f, c.Payloads()), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("ideal cache %s: %w", path, err)
	}
	return nil
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
