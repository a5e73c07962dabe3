package format

import (
	"errors"
	"fmt"
)

// Reasons why a file cannot be used. The packages that read cache files export these values under the same names and
// return them wrapped with the path.
var (
	// ErrNotCache: the bytes do not begin as a native file does, or do not end as ExecuTorch's does.
	ErrNotCache = errors.New("not a packed weights cache; choose another path")
	// ErrDamaged: they do, and a checksum is wrong or a rule broken.
	ErrDamaged = errors.New("damaged packed weights; pack them again")
	// ErrVersion: they are of another version of the format than this package reads.
	ErrVersion = errors.New("written in another version of the format; " +
		"use the xpwc that wrote it, or choose another path")
	// ErrOlder: that version is an older one. It matches ErrVersion.
	ErrOlder error = older{}
	// ErrHeader: they are a native file's without its header. It matches ErrDamaged.
	ErrHeader = fmt.Errorf("the header is damaged; by its trailer the file is a native one: %w", ErrDamaged)
	// ErrEmptyHeader: nothing was committed to the native file when power failed. It matches ErrDamaged.
	ErrEmptyHeader = fmt.Errorf("the header is damaged: it is empty, as a power failure before the first commit "+
		"leaves it: %w", ErrDamaged)
	// ErrForeign: the file is ExecuTorch's. It has neither the layout of its entries nor what they were packed from.
	ErrForeign = errors.New("written by ExecuTorch; xpwc pack makes a native file of its model")
)

type older struct{}

func (older) Error() string {
	return "written in an older version of the format; a program that packs into it replaces it, as xpwc pack does"
}

func (older) Unwrap() error { return ErrVersion }

// damage is what a decoder found wrong. It matches ErrDamaged; its text is what is wrong, and where.
type damage string

func (d damage) Error() string { return string(d) }

func (damage) Unwrap() error { return ErrDamaged }

func damaged(format string, args ...any) error { return damage(fmt.Sprintf(format, args...)) }
