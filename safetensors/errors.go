package safetensors

import "errors"

var (
	// ErrMalformed is matched by every error that says a file is no well-formed safetensors file, or an index of
	// sharded files does not fit them. The file is damaged or was not downloaded whole: get it again from its source.
	ErrMalformed = errors.New("malformed safetensors file")

	// ErrInvalid is matched by what Write refuses to write.
	ErrInvalid = errors.New("cannot be written as safetensors")
)
