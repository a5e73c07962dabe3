package store

import (
	"errors"
	"fmt"

	"xpwc/internal/format"
)

// Errors that callers test for with errors.Is, in addition to the errors of package format. Returned errors wrap them
// with the path.
var (
	// ErrReplaced: another file is at the path than the one that was loaded or written, or none.
	ErrReplaced = errors.New("the file was removed or replaced meanwhile")
	// ErrShort: the file ends before its committed end. It was cut off, or is being copied to its place. It is a
	// format.ErrDamaged.
	ErrShort = fmt.Errorf("it is too short: %w", format.ErrDamaged)
	// ErrOverwritten: something was written over the file that is loaded, or cut off of it. It is a format.ErrDamaged.
	ErrOverwritten = fmt.Errorf("it was overwritten or cut off while in use; put a file in its place by renaming it "+
		"(mv), not by copying over it (cp): %w", format.ErrDamaged)
	// ErrUnmappable: the system can open the file, and neither describe nor map it.
	ErrUnmappable = errors.New("it cannot be mapped; put the cache file on another file system")
	// ErrFlush: the disk may not have what was written to the file, which is to be ended: see [Store.End].
	ErrFlush = errors.New("the cache file could not be flushed")
	// ErrLongNames: an index cannot list what was reserved and one more with such names.
	ErrLongNames = errors.New("no index has room for so long names")
	// ErrMapped: the file cannot be cut off as long as any process has it mapped. On Windows alone.
	ErrMapped = errors.New("the file is mapped")
)
