package tflite

import (
	"errors"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
)

var (
	// ErrMalformed is matched by every error about a file that is not a well-formed TensorFlow Lite model: bytes
	// outside the file, an index that names nothing, a constant whose size is not its shape's, an operator with the
	// wrong operands.
	ErrMalformed = errors.New("malformed model")

	// ErrUnsupportedOp is matched when the model has an operator this package does not know. The message has the
	// operator's name and its index in the model.
	ErrUnsupportedOp = errors.New("unsupported operator")

	// ErrUnsupported is matched when a known operator is used in a way this package or XNNPACK cannot run: a data
	// type, a fused activation, weights that are not constant. The message has the operator's name and its index.
	ErrUnsupported = errors.New("unsupported use")

	// ErrUnknownSignature is matched when the model has no signature of the name that was asked for. The message lists
	// the known ones.
	ErrUnknownSignature = errors.New("the model has no such signature")

	// ErrShape is matched when an input cannot have the shape that was asked for.
	ErrShape = errors.New("the model does not take an input of this shape")
)

func malformed(format string, args ...any) { fault.Because(ErrMalformed, format, args...) }

func unsupported(format string, args ...any) { fault.Because(ErrUnsupported, format, args...) }

// checked has the errors of other packages be some of this one.
func checked(do func()) { flow.Checked(do, ErrMalformed, ErrUnsupported) }
