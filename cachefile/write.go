package cachefile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"xpwc/internal/format"
)

// WriteOptions are the options of [File.Write].
type WriteOptions struct {
	// Format of the new file; "" is that of the file it is made of.
	Format Format
	// Note is text for Info.Note, at most 64 KiB, in a file for ExecuTorch, which does not look there. A native file
	// has none.
	Note string
	// Complete promises that the file has all packed weights of its model. Then a file for ExecuTorch may have a
	// variant. Otherwise a variant is ambiguous, because the others of its key may be missing.
	Complete bool
	// LeftOut, if not nil, is asked about each entry that keep has chosen and that cannot be written. The error is the
	// reason, and matches ErrDamaged or ErrAmbiguous; the entry is zero if its record is damaged. If LeftOut returns
	// nil, Write leaves the entry out; otherwise it fails with the error that LeftOut returns. Without LeftOut such an
	// entry makes Write fail.
	LeftOut func(Entry, error) error
	// Seal, if not nil, is the digest of the model that all entries are of: a host that gives it to a reader has the
	// content that they were packed from. See [Entry.Sealed]. It has no effect on a file for ExecuTorch.
	Seal *Digest
	// Programs, if not nil, returns the digests of the parts of that model which pack the entry: the delegates of an
	// ExecuTorch program. A reader that gets the bytes of such a part needs no digest of the model. No effect without
	// Seal.
	Programs func(Entry) []Digest
	// Progress, if not nil, is given how many bytes of the new file are written, of how many.
	Progress func(done, total int64)
}

// Write makes a new file of the entries that keep returns true for; nil keeps all. Payloads are copied densely, without
// dead bytes, and compared with their checksums on the way. A native file has equal payloads once; it
// gets an identity of its own and begins with generation 1, so that it and its source can go different ways.
//
// The new file is an open one, which is empty and can be read and written. It stays the caller's, who flushes it and,
// if there was an error, throws it away. It must not be at a path that programs open before it is whole: rename it.
//
// A file for ExecuTorch has one entry a name, in the order of the names: the one used last, if their seeds differ.
// Errors: ErrLayouts, ErrForeign and ErrEmpty for a file that cannot be made.
func (f *File) Write(dst *os.File, keep func(Entry) bool, o WriteOptions) error {
	o.Format = cmp.Or(o.Format, f.format)
	if len(o.Note) > format.MaxNote {
		return fmt.Errorf("a note of %d bytes, of at most %d", len(o.Note), format.MaxNote)
	}
	if err := f.convertible(o.Format); err != nil {
		return err
	}
	entries, err := f.choose(keep, &o)
	if err != nil {
		return err
	}
	im := &Image{}
	if o.Format == Native {
		err = im.native(entries, f.layoutsOf(entries), &o, func([]byte) [16]byte { return newID() })
	} else {
		err = im.foreign(entries, o.Note)
	}
	switch {
	case errors.As(err, new(*Problem)): // which has the path
		return err
	case err != nil:
		return f.wrap(err)
	}
	return im.write(dst, o.Progress)
}

// layoutsOf returns the layouts of entries in the index.
func (f *File) layoutsOf(entries []source) []format.Layout {
	if f.index == nil {
		return nil
	}
	unused := func(l format.Layout) bool {
		return !slices.ContainsFunc(entries, func(s source) bool { return s.Layout == l.Fingerprint })
	}
	return slices.DeleteFunc(slices.Clone(f.index.Layouts()), unused)
}

func (f *File) convertible(target Format) error {
	switch {
	case target == Native && f.format != Native:
		return f.wrap(ErrForeign)
	case target != Native && target != XPWC2:
		return fmt.Errorf("%q is no format that is written; choose %s or %s", target, Native, XPWC2)
	}
	return nil
}

// leaveOut returns nil if an entry may be left out.
func (o *WriteOptions) leaveOut(e Entry, cause error) error {
	if o.LeftOut == nil {
		return cause
	}
	return o.LeftOut(e, cause)
}

// choose returns the entries of the new file.
func (f *File) choose(keep func(Entry) bool, o *WriteOptions) ([]source, error) {
	check := f.checkSize // while a payload is copied it is too late to leave it out
	if o.LeftOut != nil {
		check = f.Check
	}
	var entries []Entry
	for e, err := range f.Entries() {
		if err == nil {
			if keep != nil && !keep(e) {
				continue
			}
			if err = check(e); err != nil && !errors.Is(err, ErrDamaged) {
				return nil, err
			}
		}
		if err != nil {
			if err := o.leaveOut(e, err); err != nil {
				return nil, err
			}
			continue
		}
		entries = append(entries, e)
	}
	if o.Format != Native {
		var err error
		if entries, err = f.chooseForExecuTorch(entries, o); err != nil {
			return nil, err
		}
	}
	sources := make([]source, len(entries))
	for i, e := range entries {
		sources[i] = source{e, f}
	}
	return sources, nil
}

func (f *File) chooseForExecuTorch(entries []Entry, o *WriteOptions) ([]Entry, error) {
	for _, e := range entries {
		if e.Layout != entries[0].Layout {
			return nil, f.wrap(ErrLayouts)
		}
	}
	meant := entries
	if f.format == Native {
		meant = oneAName(entries, o.Complete)
	}
	served := map[answer]bool{}
	for i := range meant {
		served[meant[i].answer()] = true
	}
	for _, e := range entries {
		if served[e.answer()] {
			continue
		}
		err := f.wrap(fmt.Errorf("entry %q: %w", e.Name, ErrAmbiguous))
		if err := o.leaveOut(e, err); err != nil {
			return nil, err
		}
	}
	if len(meant) == 0 {
		return nil, f.wrap(ErrEmpty)
	}
	// The order in which entries were packed is another one each time.
	slices.SortStableFunc(meant, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return meant, nil
}

// An answer is what ExecuTorch looks up, and what it finds.
type answer struct {
	name string
	seed uint32
	size int64
	sum  Digest
}

func (e *Entry) answer() answer { return answer{e.Name, e.Seed, e.Size, e.Sum} }

// oneAName returns the entries, in their order, that ExecuTorch would serve rightly: for each name the one used last,
// unless another of the name has the same seed and other bytes. Variants are none, unless the entries are complete.
func oneAName(entries []Entry, complete bool) []Entry {
	last := map[string]int{}
	ambiguous := map[string]bool{}
	for i, e := range entries {
		l, ok := last[e.Name]
		if !ok || e.UsedAt.After(entries[l].UsedAt) {
			last[e.Name] = i
		}
	}
	for _, e := range entries {
		l := entries[last[e.Name]]
		if e.Variant && !complete || e.Seed == l.Seed && e.answer() != l.answer() {
			ambiguous[e.Name] = true
		}
	}
	var latest []Entry
	for i, e := range entries {
		if last[e.Name] == i && !ambiguous[e.Name] {
			latest = append(latest, e)
		}
	}
	return latest
}
