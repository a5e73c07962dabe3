package described

import (
	"errors"
	"fmt"
)

// ErrInvalid is matched by every error that says a description is malformed, or does not fit the tensors. It names
// the operator.
var ErrInvalid = errors.New("invalid description")

// ErrNone is matched by the error of [Open] that was given no description, of tensors that do not have one themselves.
// It matches ErrInvalid.
var ErrNone = fmt.Errorf("%w: there is none", ErrInvalid)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
