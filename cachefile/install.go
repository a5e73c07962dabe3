package cachefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"xpwc/internal/format"
	"xpwc/internal/output"
)

// Install makes a native file of the bytes that content writes, which may come from anywhere. It returns nil if
// [Verify] finds nothing wrong with it and accept, if it is not nil, returns nil. The file gets an identity of its own:
// processes take a file of another identity for a replaced one, and one of the same for one that grew. So two copies of
// one file, one after the other at one path, must not have the same.
//
// evidence, if it is not nil, is asked about each layout, and returns what the file has in place of Layout.Evidence.
//
// What to is, and who looks after it, is as with [File.Write]. Errors: ErrDamaged, ErrVersion and ErrForeign for what
// was to be put there, and those of content and accept.
func Install(to *os.File, content func(io.Writer) error, accept func(Info) error, evidence func(Layout) string) error {
	pieces := output.NewPieces(to)
	if err := content(pieces); err != nil {
		return err
	}
	if err := pieces.Flush(); err != nil {
		return err
	}
	f, info, err := installable(to, accept)
	if err != nil {
		return err
	}
	slot := f.slot
	if evidence != nil {
		slot, err = writer{to}.describe(f, info, evidence)
	}
	return errors.Join(err, writer{to}.write(newHeader(slot), 0))
}

// describe writes the index of a sound native file, which the output has, anew with other evidence.
func (t writer) describe(f *File, info Info, evidence func(Layout) string) (format.Slot, error) {
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
		r := e.record
		r.Offset = uint64(e.Offset)
		records = append(records, r)
	}
	slot, block, err := format.EncodeGeneration(f.slot.Generation, f.slot.IndexOffset, layouts, records)
	if err != nil {
		return format.Slot{}, f.wrap(err)
	}
	return slot, errors.Join(t.write(block, slot.IndexOffset), t.truncate(slot.End))
}

// installable returns a file with which nothing is wrong, and what it is.
func installable(file *os.File, accept func(Info) error) (*File, Info, error) {
	there, err := file.Stat()
	if err != nil {
		return nil, Info{}, err
	}
	problems, err := VerifyReader(file, there.Size(), nil)
	if errors.Is(err, ErrNotCache) {
		return nil, Info{}, fmt.Errorf("%s: what was to be put there is no cache: %w", file.Name(), ErrDamaged)
	}
	if err != nil {
		return nil, Info{}, err
	}
	if len(problems) > 0 {
		return nil, Info{}, &problems[0]
	}
	f, err := NewFile(file, there.Size())
	if err != nil {
		return nil, Info{}, err
	}
	info, err := f.Info()
	if err != nil {
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
