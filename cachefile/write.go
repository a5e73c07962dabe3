package cachefile

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"xpwc/internal/format"
	"xpwc/internal/output"
)

// WriteOptions say what [File.Write] makes.
type WriteOptions struct {
	// Format of the new file; "" is that of the file it is made of.
	Format Format
	// Layout is the layout whose entries a file for ExecuTorch is made of. Zero is the only layout there is. It has no
	// effect on a native file.
	Layout Digest
	// Note is text for Info.Note, at most 64 KiB, in a file for ExecuTorch, which does not look there. A native file
	// has none.
	Note string
	// LeftOut, if not nil, is asked about each entry that keep has chosen and that cannot be written. The error says
	// why, and matches ErrDamaged or ErrAmbiguous; the entry is zero if its record is damaged. If LeftOut returns
	// nil, Write leaves the entry out; otherwise it fails with what LeftOut returns. Without LeftOut such an entry
	// makes Write fail.
	LeftOut func(Entry, error) error
	// Seal, if not nil, is the digest of the model that all entries are of: a host that gives it to a reader has the
	// content that they were packed from. See [Entry.Sealed]. It has no effect on a file for ExecuTorch.
	Seal *Digest
	// Progress, if not nil, is given how many bytes of how many are copied.
	Progress func(done, total int64)
}

// Write makes a new file of the entries that keep returns true for; nil keeps all. Payloads are copied densely, without
// dead bytes, and compared with their checksums on the way. A native file has equal payloads of several layouts once;
// it gets an identity of its own and begins with generation 1, so that it and its source can go different ways.
//
// The new file is an open one, which is empty and can be read and written. It stays the caller's, who flushes it and,
// if there was an error, throws it away. It must not be at a path that programs open before it is whole: rename it.
//
// A file for ExecuTorch has one entry a name, in the order of the names: the one used last, if their seeds differ.
// ErrLayouts, ErrForeign and ErrEmpty say what cannot be made.
func (f *File) Write(to *os.File, keep func(Entry) bool, o WriteOptions) error {
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
	if o.Format == Native {
		return f.writeNative(writer{to}, entries, &o)
	}
	return f.writeForeign(writer{to}, entries, &o)
}

func (f *File) convertible(to Format) error {
	switch {
	case to == Native && f.format != Native:
		return f.wrap(ErrForeign)
	case to != Native && to != XPWC2:
		return fmt.Errorf("%q is no format that is written; choose %s or %s", to, Native, XPWC2)
	}
	return nil
}

// leaveOut returns nil if an entry may be left out.
func (o *WriteOptions) leaveOut(e Entry, why error) error {
	if o.LeftOut == nil {
		return why
	}
	return o.LeftOut(e, why)
}

// choose returns the entries of the new file.
func (f *File) choose(keep func(Entry) bool, o *WriteOptions) ([]Entry, error) {
	var entries []Entry
	for e, err := range f.Entries() {
		if err != nil {
			if err := o.leaveOut(e, err); err != nil {
				return nil, err
			}
			continue
		}
		if keep == nil || keep(e) {
			entries = append(entries, e)
		}
	}
	if o.Format == Native {
		return entries, nil
	}
	return f.chooseForExecuTorch(entries, o)
}

func (f *File) chooseForExecuTorch(entries []Entry, o *WriteOptions) ([]Entry, error) {
	if o.Layout != (Digest{}) {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Layout != o.Layout })
	}
	for _, e := range entries {
		if e.Layout != entries[0].Layout {
			return nil, f.wrap(ErrLayouts)
		}
	}
	meant := entries
	if f.format == Native {
		meant = oneAName(entries)
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
// unless another of the name has the same seed and other bytes. Variants are none.
func oneAName(entries []Entry) []Entry {
	last := map[string]int{}
	ambiguous := map[string]bool{}
	for i, e := range entries {
		l, known := last[e.Name]
		if !known || e.UsedAt.After(entries[l].UsedAt) {
			last[e.Name] = i
		}
	}
	for _, e := range entries {
		l := entries[last[e.Name]]
		if e.Variant || e.Seed == l.Seed && e.answer() != l.answer() {
			ambiguous[e.Name] = true
		}
	}
	var kept []Entry
	for i, e := range entries {
		if last[e.Name] == i && !ambiguous[e.Name] {
			kept = append(kept, e)
		}
	}
	return kept
}

// writeNative writes a native file of one generation.
func (f *File) writeNative(t writer, entries []Entry, o *WriteOptions) error {
	tail := uint64(format.HeaderSize)
	kept, err := f.copyPayloads(t, &tail, entries, o)
	if err != nil {
		return err
	}
	records := make([]format.Record, len(kept))
	used := map[Digest]bool{}
	for i := range kept {
		records[i] = kept[i].record
		records[i].Offset = uint64(kept[i].Offset)
		if o.Seal != nil {
			records[i].Seal(*o.Seal)
		}
		used[kept[i].Layout] = true
	}
	var layouts []format.Layout
	if f.index != nil {
		unused := func(l format.Layout) bool { return !used[l.Fingerprint] }
		layouts = slices.DeleteFunc(slices.Clone(f.index.Layouts()), unused)
	}
	slot, block, err := format.EncodeGeneration(1, tail, layouts, records)
	if err != nil {
		return f.wrap(err)
	}
	return errors.Join(t.write(block, slot.IndexOffset), t.write(newHeader(slot), 0))
}

// writeForeign writes an ExecuTorch's file.
func (f *File) writeForeign(t writer, entries []Entry, o *WriteOptions) error {
	tail := uint64(0)
	kept, err := f.copyPayloads(t, &tail, entries, o)
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return f.wrap(ErrEmpty)
	}
	trailer := make([]format.TrailerEntry, len(kept))
	for i, e := range kept {
		trailer[i] = format.TrailerEntry{Name: e.Name, Offset: uint64(e.Offset), Size: uint64(e.Size), Seed: e.Seed}
	}
	note := format.EncodeNote([]byte(o.Note))
	tail += uint64(len(note))
	return errors.Join(t.write(note, tail-uint64(len(note))), t.write(format.EncodeTrailer(trailer, tail), tail))
}

// copyPayloads copies payloads after the tail, each once, and returns the entries with where theirs are now. A native
// file has equal payloads of several layouts once. (Under one key an offset distinguishes entries.)
func (f *File) copyPayloads(t writer, tail *uint64, entries []Entry, o *WriteOptions) (kept []Entry, err error) {
	type payload struct{ offset, size int64 }
	type content struct {
		sum  Digest
		size int64
	}
	type place struct {
		layout Digest
		offset uint64
	}
	var done, total int64
	for i, e := range entries {
		if i == 0 || e.Offset != entries[i-1].Offset {
			total += e.Size
		}
	}
	moved, stored, taken := map[payload]uint64{}, map[content]uint64{}, map[place]bool{}
	pieces := output.NewPieces(t.f)
	for _, e := range entries {
		at, copied := moved[payload{e.Offset, e.Size}]
		if err := f.checkSize(&e); !copied || err != nil {
			equal, known := stored[content{e.Sum, e.Size}]
			if known && !taken[place{e.Layout, equal}] {
				at, err = equal, f.Check(e)
			} else {
				at = format.Align(*tail)
				if err = pieces.MoveTo(int64(at)); err == nil {
					err = f.copyPayload(pieces, &e)
				}
			}
			if err != nil {
				if errors.Is(err, ErrDamaged) {
					err = o.leaveOut(e, err)
				}
				if err != nil {
					return nil, err
				}
				continue
			}
			*tail = max(*tail, at+uint64(e.Size))
			moved[payload{e.Offset, e.Size}] = at
			if o.Format == Native {
				stored[content{e.Sum, e.Size}] = at
			}
			if done += e.Size; o.Progress != nil {
				o.Progress(done, total)
			}
		}
		taken[place{e.Layout, at}] = true
		e.Offset = int64(at)
		kept = append(kept, e)
	}
	err = errors.Join(pieces.MoveTo(int64(*tail)), pieces.Flush())
	return kept, errors.Join(err, t.truncate(*tail)) // what was copied of damaged ones
}

// writer writes a new file at offsets.
type writer struct{ f *os.File }

func (t writer) write(b []byte, offset uint64) error {
	_, err := t.f.WriteAt(b, int64(offset))
	return err
}

func (t writer) truncate(size uint64) error { return t.f.Truncate(int64(size)) }
