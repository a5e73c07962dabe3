//go:build !cgo || !linux

package stock

import (
	"errors"
	"fmt"
)

// Pack returns an error that matches errors.ErrUnsupported: LiteRT's library is one for Linux, which cgo loads.
func (j Job) Pack() error {
	return fmt.Errorf("this xpwc was built without what loads LiteRT's library: %w", errors.ErrUnsupported)
}
