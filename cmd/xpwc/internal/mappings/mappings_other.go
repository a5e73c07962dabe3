//go:build !linux

package mappings

import (
	"errors"
	"fmt"
)

// Find returns errors.ErrUnsupported.
func Find(string) (*Survey, error) {
	return nil, fmt.Errorf("which processes have a file mapped is known on Linux only: %w", errors.ErrUnsupported)
}
