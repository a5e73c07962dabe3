//go:build !linux

package mappings

import (
	"errors"
	"fmt"
)

// Of returns errors.ErrUnsupported.
func Of(string) (*Survey, error) {
	return nil, fmt.Errorf("which processes have a file mapped is known on Linux only: %w", errors.ErrUnsupported)
}
