package cachefile

import (
	"errors"
	"fmt"
	"io"

	"xpwc/internal/format"
)

// Install makes a native file at the path of the bytes that content writes, which may come from anywhere. It appears
// there if [Verify] finds nothing wrong with it and accept, if it is not nil, returns nil. The file gets an identity
// of its own: processes take a file of another identity for a replaced one, and one of the same for one that grew. So
// two copies of one file, one after the other at one path, must not have the same.
//
// As with [File.Write], what is at the path is replaced by a rename, if it is empty or a cache of this version, and
// the new file is for its owner only. Errors: ErrNotCache for what is at the path, ErrDamaged, ErrVersion and
// ErrForeign for what was to be put there, and those of content and accept. They leave what there was.
func Install(to string, content func(io.Writer) error, accept func(Info) error) (err error) {
	to, err = (*File)(nil).outputAt(to)
	if err != nil {
		return err
	}
	t, err := newOutput(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.discard()) }()
	if err := content(t.f); err != nil {
		return err
	}
	slot, err := installable(t.f.Name(), to, accept)
	if err != nil {
		return err
	}
	if err := t.write(newHeader(slot), 0); err != nil {
		return err
	}
	return t.commit()
}

// installable returns the slot in force of a file with which nothing is wrong.
func installable(path, to string, accept func(Info) error) (format.Slot, error) {
	problems, err := Verify(path, nil)
	if errors.Is(err, ErrNotCache) {
		return format.Slot{}, fmt.Errorf("%s: what was to be put there is no cache: %w", to, ErrDamaged)
	}
	if err != nil {
		return format.Slot{}, err
	}
	if len(problems) > 0 {
		problems[0].Path = to
		return format.Slot{}, &problems[0]
	}
	f, err := Open(path)
	if err != nil {
		return format.Slot{}, err
	}
	defer f.Close()
	info, err := f.Info()
	if err != nil {
		return format.Slot{}, err
	}
	if err := f.convertible(Native); err != nil {
		return format.Slot{}, err
	}
	if info.UncommittedBytes > 0 {
		return format.Slot{}, f.problem(f.slot.End, "%d bytes lie after the end", info.UncommittedBytes)
	}
	if accept != nil {
		err = accept(info)
	}
	return f.slot, err
}
