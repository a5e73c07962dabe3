package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"xpwc/internal/tensorfile"
	"xpwc/models/safetensors"
)

var (
	// ErrMalformed is matched by the error for a file that is no well-formed .npy. It is damaged or was not copied
	// whole: get it again from its source.
	ErrMalformed = errors.New("malformed .npy file")

	// ErrUnsupported is matched by the error for a well-formed array that XNNPACK cannot read in place. The message
	// explains how to save it.
	ErrUnsupported = errors.New("unsupported .npy file")
)

const (
	magic = "\x93NUMPY"
	// maxHeader is the longest header that NumPy reads, unless it is set to trust the file.
	maxHeader = 10_000
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// Read returns the array in the bytes of a whole .npy file. Its Data is a part of file, and its Name is empty. The
// error matches [ErrMalformed] or [ErrUnsupported].
func Read(file []byte) (a safetensors.Tensor, err error) {
	if len(file) < len(magic)+2 || string(file[:len(magic)]) != magic {
		return a, malformed("it does not begin with %q", magic)
	}
	major, minor := file[len(magic)], file[len(magic)+1]
	offset := len(magic) + 2
	rest := file[offset:]
	var n int
	switch {
	case minor != 0 || major < 1 || major > 3:
		return a, unsupported("version %d.%d; save it with a NumPy that writes 1.0 to 3.0", major, minor)
	case major == 1 && len(rest) >= 2:
		n, offset = int(binary.LittleEndian.Uint16(rest)), offset+2
	case major > 1 && len(rest) >= 4:
		n, offset = int(min(binary.LittleEndian.Uint32(rest), maxHeader+1)), offset+4
	default:
		return a, malformed("%d bytes are no header", len(file))
	}
	switch {
	case n > maxHeader:
		return a, malformed("a header of more than %d bytes", maxHeader)
	case n > len(file)-offset:
		return a, malformed("a header of %d bytes in a file of %d", n, len(file))
	}
	text := file[offset:][:n]
	if major == 3 && !utf8.Valid(text) {
		return a, malformed("the header is not UTF-8")
	}
	if a, err = parseDictionary(string(text)); err != nil {
		return a, err
	}
	size, err := tensorfile.ByteSize(a.Shape, a.Dtype.Bits())
	if err != nil {
		return a, malformed("%v", err)
	}
	a.Data = file[offset+n:]
	if got := int64(len(a.Data)); got != size {
		return a, malformed("%d bytes for shape %v of %s, which has %d", got, a.Shape, a.Dtype, size)
	}
	return a, nil
}
