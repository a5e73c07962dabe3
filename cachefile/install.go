package cachefile

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"xpwc/internal/format"
)

// Install makes a native file at the path of the bytes that content writes, which may come from anywhere. It appears
// there if [Verify] finds nothing wrong with it and accept, if it is not nil, returns nil. The file gets an identity
// of its own: processes take a file of another identity for a replaced one, and one of the same for one that grew. So
// two copies of one file, one after the other at one path, must not have the same.
//
// evidence, if it is not nil, is asked about each layout, and returns what the file has in place of Layout.Evidence.
//
// As with [File.Write], what is at the path is replaced by a rename, if it is empty or a cache of this version, and
// the new file is for its owner only. Errors: ErrNotCache for what is at the path, ErrDamaged, ErrVersion and
// ErrForeign for what was to be put there, and those of content and accept. They leave what there was.
func Install(to string, content func(io.Writer) error, accept func(Info) error, evidence func(Layout) string,
) (err error) {
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
	f, info, err := installable(t.f.Name(), to, accept)
	if err != nil {
		return err
	}
	slot := f.slot
	if evidence != nil {
		slot, err = t.describe(f, info, evidence)
	}
	if err := errors.Join(err, f.Close(), t.write(newHeader(slot), 0)); err != nil {
		return err
	}
	return t.commit()
}

// describe writes the index of a sound native file, which the output has, anew with other evidence.
func (t *output) describe(f *File, info Info, evidence func(Layout) string) (format.Slot, error) {
	if f.index == nil {
		return f.slot, nil
	}
	layouts := slices.Clone(f.index.Layouts())
	for i := range layouts {
		layouts[i].Evidence = evidence(info.Layouts[i])
	}
	if slices.Equal(layouts, f.index.Layouts()) {
		return f.slot, nil
	}
	records := make([]format.Record, 0, info.Entries)
	for e, err := range f.Entries() {
		if err != nil {
			return format.Slot{}, err
		}
		records = append(records, e.record())
	}
	slot, block, err := format.EncodeGeneration(f.slot.Generation, f.slot.IndexOffset, layouts, records)
	if err != nil {
		return format.Slot{}, f.wrap(err)
	}
	return slot, errors.Join(t.write(block, slot.IndexOffset), t.truncate(slot.End))
}

// installable returns a file with which nothing is wrong, open, and what it is.
func installable(path, to string, accept func(Info) error) (_ *File, info Info, err error) {
	problems, err := Verify(path, nil)
	if errors.Is(err, ErrNotCache) {
		return nil, Info{}, fmt.Errorf("%s: what was to be put there is no cache: %w", to, ErrDamaged)
	}
	if err != nil {
		return nil, Info{}, err
	}
	if len(problems) > 0 {
		problems[0].Path = to
		return nil, Info{}, &problems[0]
	}
	f, err := Open(path)
	if err != nil {
		return nil, Info{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if info, err = f.Info(); err != nil {
		return nil, Info{}, err
	}
	if err := f.convertible(Native); err != nil {
		return nil, Info{}, err
	}
	if info.UncommittedBytes > 0 {
		return nil, Info{}, f.problem(f.slot.End, "%d bytes lie after the end", info.UncommittedBytes)
	}
	if accept != nil {
		err = accept(info)
	}
	return f, info, err
}
