//go:build !cgo

package written

import (
	"errors"
	"unsafe"
)

// Cache implements xnnpack.WeightsCache; without cgo there is none.
type Cache struct{}

var errNoCgo = errors.New("built without cgo")

// Create fails.
func Create(string) (*Cache, error) { return nil, errNoCgo }

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return nil }

// Finalize fails.
func (c *Cache) Finalize() error { return errNoCgo }

// Close does nothing.
func (c *Cache) Close() error { return nil }
