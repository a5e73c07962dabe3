package described

import (
	"errors"
	"fmt"
)

// ErrInvalid is matched by every error that says a description is malformed, or does not fit the tensors. It names
// the operator.
var ErrInvalid = errors.New("invalid description")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
