package executorch

import "errors"

var (
	// ErrMalformed is matched by every error that says a file is no well-formed .ptd or .pte. It is damaged or was
	// not downloaded whole: get it again from its source.
	ErrMalformed = errors.New("malformed ExecuTorch file")

	// ErrUnsupported is matched when a file is of a version of its schema that this package does not know. Export the
	// model again, with an ExecuTorch that writes version 0.
	ErrUnsupported = errors.New("unsupported version of an ExecuTorch file")

	// ErrClosed is matched by what is asked of a File after Close, as far as it needs the file's bytes.
	ErrClosed = errors.New("ExecuTorch file is closed")
)
