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
func Open(string, []Place) (*Cache, error) { return nil, errNoCgo }

// Provider implements xnnpack.WeightsCache.
func (c *Cache) Provider() unsafe.Pointer { return nil }

// CheckAnswers fails.
func (c *Cache) CheckAnswers() error { return errNoCgo }

// Save fails.
func (c *Cache) Save(string) ([]Place, error) { return nil, errNoCgo }

// Close does nothing.
func (c *Cache) Close() error { return nil }
