//go:build !cgo

package ideal

import (
	"errors"
	"unsafe"
)

var errNoCgo = errors.New("built without cgo")

// Cache implements xnnpack.WeightsCache; without cgo there is none.
type Cache struct{}

// New fails.
func New() (*Cache, error) { return nil, errNoCgo }

// Open fails.
func Open(string) (*Cache, error) { return nil, errNoCgo }

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return nil }

// Misses returns 0.
func (c *Cache) Misses() int { return 0 }

// Unasked returns 0.
func (c *Cache) Unasked() int { return 0 }

// Save fails.
func (c *Cache) Save(string) error { return errNoCgo }

// Close does nothing.
func (c *Cache) Close() error { return nil }

// Payloads returns none.
func (c *Cache) Payloads() [][]byte { return nil }
