package executorch

import (
	"errors"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
)

var (
	// ErrMalformed is matched by every error about a file that is no well-formed .ptd or .pte. It is damaged or was
	// not downloaded whole: get it again from its source.
	ErrMalformed = errors.New("malformed ExecuTorch file")

	// ErrUnsupported is matched when a file or a program has what this package does not know: a version of its
	// schema, a type, a quantisation, a flag. The error names it. Export the model again, with an ExecuTorch of
	// about 1.5. Where it is matched by [Method.Runnable] alone, the weights can be packed.
	ErrUnsupported = errors.New("unsupported in an ExecuTorch file")

	// ErrUnsupportedOp is matched when a method has operators that are none of an XNNPACK delegate's, or a delegate
	// has a node that package xnnpack does not have. The error lists them. ExecuTorch runs such a method; its weights
	// can be packed here for it.
	ErrUnsupportedOp = errors.New("operators that cannot be run here")

	// ErrMissingData is matched when a program's constant is in none of its files: a .ptd was not given. The error
	// names the constant.
	ErrMissingData = errors.New("constant is in none of the program's files")

	// ErrShape is matched by the error of [Method.Resized] if a program has no memory for inputs of these shapes. The
	// error names the input and the largest shape.
	ErrShape = errors.New("shape that the program does not take")

	// ErrUnknownMethod is matched when a program has no method of a name. The error lists its methods.
	ErrUnknownMethod = errors.New("no such method")
)

func malformed(format string, args ...any) { fault.Because(ErrMalformed, format, args...) }

func unsupported(format string, args ...any) { fault.Because(ErrUnsupported, format, args...) }

// checked has the errors of other packages be some of this one.
func checked(do func()) { flow.Checked(do, ErrMalformed, ErrUnsupported) }

// elements multiplies dimensions, all of which must be positive.
func elements(shape ...int) (n int) {
	checked(func() { n = fault.Value(flow.Elements(shape...)) })
	return n
}
