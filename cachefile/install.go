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
// one file, one after the other at one path, must not have the same. accept may change the evidence of the layouts: the
// file has it then.
//
// dst and its ownership are as with [File.Write]. Errors: ErrDamaged, ErrVersion and ErrForeign for the content, and
// the errors of content and accept.
func Install(dst *os.File, content func(io.Writer) error, accept func(*Info) error) error {
	pieces := output.NewPieces(dst)
	if err := content(pieces); err != nil {
		return err
	}
	if err := pieces.Flush(); err != nil {
		return err
	}
	f, info, err := installable(dst)
	if err == nil && accept != nil {
		err = accept(&info)
	}
	if err != nil {
		return err
	}
	slot, err := f.describe(dst, info)
	if err != nil {
		return err
	}
	_, err = dst.WriteAt(headerOf(newID(), slot), 0)
	return err
}

// describe writes the index of a sound native file anew if the evidence of a layout is to be another.
func (f *File) describe(dst *os.File, info Info) (format.Slot, error) {
	if f.index == nil {
		return f.slot, nil
	}
	layouts := slices.Clone(f.index.Layouts())
	for i := range layouts {
		layouts[i].Evidence = info.Layouts[i].Evidence
	}
	if slices.Equal(layouts, f.index.Layouts()) {
		return f.slot, nil
	}
	records := make([]format.Record, f.index.Len())
	for i := range records {
		var err error
		if records[i], err = f.index.Record(i); err != nil {
			return format.Slot{}, err
		}
	}
	slot, block, err := format.EncodeGeneration(f.slot.Generation, f.slot.IndexOffset, layouts, records)
	if err != nil {
		return format.Slot{}, f.wrap(err)
	}
	_, err = dst.WriteAt(block, int64(slot.IndexOffset))
	return slot, errors.Join(err, dst.Truncate(int64(slot.End)))
}

// installable returns a file with which nothing is wrong, and what it is.
func installable(file *os.File) (*File, Info, error) {
	stat, err := file.Stat()
	if err != nil {
		return nil, Info{}, err
	}
	problems, err := VerifyReader(file, stat.Size(), nil)
	if errors.Is(err, ErrNotCache) {
		return nil, Info{}, fmt.Errorf("%s: what was to be put there is no cache: %w", file.Name(), ErrDamaged)
	}
	if err != nil {
		return nil, Info{}, err
	}
	if len(problems) > 0 {
		return nil, Info{}, &problems[0]
	}
	f, err := NewFile(file, stat.Size())
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
	return f, info, nil
}
