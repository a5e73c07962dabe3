package npy

import "errors"

var (
	// ErrMalformed is matched by every error that says a file is no well-formed .npy. It is damaged or was not copied
	// whole: get it again from its source.
	ErrMalformed = errors.New("malformed .npy file")

	// ErrUnsupported is matched when a well-formed file has an array that XNNPACK could not be given as it lies
	// there. The message says how to save it otherwise.
	ErrUnsupported = errors.New("unsupported .npy file")
)
