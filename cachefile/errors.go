package cachefile

import (
	"errors"
	"fmt"

	"xpwc/internal/format"
	"xpwc/internal/trust"
)

// Errors that callers test for with errors.Is. What is returned wraps them with the path or the entry concerned.
// Packages xpwc and registry export the first four too, and xpwc also ErrUnsafeFile.
var (
	// ErrNotCache: the file is not one that xpwc or ExecuTorch wrote.
	ErrNotCache = format.ErrNotCache
	// ErrVersion: the file was written in a format of another version.
	ErrVersion = format.ErrVersion
	// ErrOlder: that version is an older one. It matches ErrVersion.
	ErrOlder = format.ErrOlder
	// ErrDamaged: the file is a cache, and a checksum in it is wrong, or it breaks a rule of docs/format.md. The
	// error is, or wraps, a *Problem.
	ErrDamaged = format.ErrDamaged
	// ErrForeign: the file is ExecuTorch's, which has neither the layout of its entries nor what they were packed
	// from. Only packing the model again, and comparing, makes a native file of one.
	ErrForeign = format.ErrForeign
	// ErrUnsafeFile: the path of a new file is a symbolic link that another user could change.
	ErrUnsafeFile = trust.ErrUnsafe
	// ErrLayouts: ExecuTorch's format has no layouts, so that a file of it can have entries of one only.
	ErrLayouts = errors.New("the entries are of several layouts; choose one")
	// ErrAmbiguous: ExecuTorch finds entries by name alone, and this name has others, or this is a variant.
	ErrAmbiguous = errors.New("ExecuTorch finds entries by name alone, and this is not the only one of its name")
	// ErrEmpty: ExecuTorch takes a file without entries for a damaged one.
	ErrEmpty = errors.New("no entries to write")
)

// A Problem is something wrong in a file. It matches ErrDamaged.
type Problem struct {
	// Path of the file, "" if NewFile was given something else than one.
	Path string `json:"-"`
	// Offset is where in the file it is, in bytes: that of the structure or payload concerned. It is counted from
	// where what NewFile was given begins.
	Offset int64 `json:"offset"`
	// Message describes the error.
	Message string `json:"what"`
	// Name of the entry that it concerns, or "".
	Name string `json:"entry,omitempty"`
}

func (p *Problem) Error() string {
	if p.Path == "" {
		return p.Place()
	}
	return p.Path + ": " + p.Place()
}

// Place returns the message without the path.
func (p *Problem) Place() string {
	if p.Name == "" {
		return fmt.Sprintf("offset %d: %s", p.Offset, p.Message)
	}
	return fmt.Sprintf("offset %d: entry %q: %s", p.Offset, p.Name, p.Message)
}

// Unwrap returns ErrDamaged.
func (*Problem) Unwrap() error { return ErrDamaged }

func (f *File) problem(offset uint64, format string, args ...any) *Problem {
	return &Problem{Path: f.path, Offset: int64(offset), Message: fmt.Sprintf(format, args...)}
}

func (f *File) problemOf(e *Entry, format string, args ...any) *Problem {
	p := f.problem(uint64(e.Offset), format, args...)
	p.Name = e.Name
	return p
}
