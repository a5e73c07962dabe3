//go:build !cgo

package ideal

import (
	"unsafe"

	"xpwc"
)

// Cache implements xnnpack.WeightsCache; without cgo there is none.
type Cache struct{}

// New returns xpwc.ErrNoCgo.
func New() (*Cache, error) { return nil, xpwc.ErrNoCgo }

// Open returns xpwc.ErrNoCgo.
func Open(string) (*Cache, error) { return nil, xpwc.ErrNoCgo }

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return nil }

// Misses returns 0.
func (c *Cache) Misses() int { return 0 }

// Unasked returns 0.
func (c *Cache) Unasked() int { return 0 }

// Save returns xpwc.ErrNoCgo.
func (c *Cache) Save(string) error { return xpwc.ErrNoCgo }

// Close does nothing.
func (c *Cache) Close() error { return nil }

// Payloads returns none.
func (c *Cache) Payloads() [][]byte { return nil }
