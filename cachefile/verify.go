package cachefile

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"xpwc/internal/format"
)

// Verify checks everything in the file at path: the slots of its header, every checksum of its index, every bound and
// the order of its records, that each is found by its key, that ExecuTorch's index claims all bytes before it, the
// sizes in the slot, and that every payload has its checksum and is not too short for its shape. Of an ExecuTorch file
// it checks the index, and that payloads can be read and neither overlap nor lie where XNNPACK could not use them. It
// returns all that is wrong, in the order of offsets, or nil.
//
// Progress, if not nil, is given how many bytes of how many payload bytes were read. The error is of a file that
// cannot be looked into: it matches ErrNotCache or ErrVersion, or is the system's.
func Verify(path string, progress func(done, total int64)) (problems []Problem, err error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	findings, err := f.read()
	if err == nil {
		problems = f.verify(findings, progress)
	}
	return problems, errors.Join(err, f.Close())
}

// VerifyReader is [Verify] for the arguments of [NewFile].
func VerifyReader(r io.ReaderAt, size int64, progress func(done, total int64)) ([]Problem, error) {
	f, findings, err := newFile(r, size)
	if err != nil {
		return nil, err
	}
	return f.verify(findings, progress), nil
}

func (f *File) verify(findings []finding, progress func(done, total int64)) []Problem {
	v := verifier{File: f, progress: progress}
	for _, f := range findings {
		v.problems = append(v.problems, *f.Problem)
	}
	if f.format == Native {
		v.native()
	} else {
		v.foreignIndex()
	}
	v.payloads()
	slices.SortStableFunc(v.problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	return v.problems
}

type verifier struct {
	*File
	progress func(done, total int64)
	problems []Problem
	entries  []Entry // those whose records are sound
	damaged  bool    // there are others
}

func (v *verifier) report(p *Problem) { v.problems = append(v.problems, *p) }

// native checks the index of a native file.
func (v *verifier) native() {
	if v.index == nil {
		return
	}
	for flaw := range v.index.Flaws() {
		v.damaged = true
		v.report(v.problem(v.slot.IndexOffset+flaw.Offset, "%v", flaw.Err))
	}
	trailerAt := v.slot.IndexOffset + v.slot.IndexSize
	for e, err := range v.Entries() {
		if err != nil {
			continue // it is among the flaws
		}
		v.entries = append(v.entries, e)
		if uint64(e.Offset) >= trailerAt {
			v.report(v.problemOf(&e, "the payload lies after the index"))
		}
	}
	seen := map[Digest]bool{}
	for _, l := range v.index.Layouts() {
		if seen[l.Fingerprint] {
			v.report(v.problem(v.slot.IndexOffset, "layout %s is listed twice", l.Fingerprint))
		}
		seen[l.Fingerprint] = true
	}
	if !v.damaged {
		v.table()
		v.sizes()
	}
	v.trailer(trailerAt)
}

// table checks that looking up each record's key finds it.
func (v *verifier) table() {
	for _, i := range v.index.Lost() {
		p := v.problem(v.slot.IndexOffset+v.index.RecordOffset(i), "the hash table does not lead to record %d", i)
		p.Name = v.entries[i].Name
		v.report(p)
	}
}

// sizes checks the slot's figures against the records.
func (v *verifier) sizes() {
	occupied := uint64(0)
	for i, e := range v.entries {
		if i == 0 || e.Offset != v.entries[i-1].Offset {
			occupied += format.Align(uint64(e.Size))
		}
	}
	slot := v.slots[v.slot.Generation%2]
	if dead := v.slot.IndexOffset - format.HeaderSize - occupied; dead != v.slot.DeadBytes {
		v.report(v.problem(slot.Offset, "the slot says %d bytes are dead, but it is %d", v.slot.DeadBytes, dead))
	}
}

// trailer checks that ExecuTorch's index claims all that is before it, and nothing else.
func (v *verifier) trailer(offset uint64) {
	if v.slot.End > v.size {
		return // it is reported already
	}
	wrong := func(format string, args ...any) {
		v.report(v.problem(offset, "the trailer for ExecuTorch: "+format, args...))
	}
	trailer, version, err := format.DecodeTrailer(v.r, v.slot.End)
	switch {
	case errors.Is(err, format.ErrNotCache):
		wrong("the magic in its footer is wrong")
	case errors.Is(err, format.ErrVersion):
		wrong("the version in its footer is %d", version)
	case err != nil:
		wrong("%v", err)
	case format.TrailerSize(trailer) != v.slot.End-offset:
		wrong("it begins at %d, the index ends at %d", v.slot.End-format.TrailerSize(trailer), offset)
	case len(trailer) != 1 || trailer[0] != format.NativeTrailer(offset):
		wrong("it does not list all bytes before it as %s, and nothing else", format.NativeEntry)
	}
}

// xnnpackAlignment is what XNNPACK needs of packed weights.
const xnnpackAlignment = 64

// foreignIndex checks the index of an ExecuTorch file.
func (v *verifier) foreignIndex() {
	named := map[string]bool{}
	end, prev := int64(0), Entry{}
	for _, e := range v.foreign {
		if named[e.Name] {
			v.report(v.problemOf(&e, "the index lists this name twice"))
		}
		named[e.Name] = true
		if e.Offset%xnnpackAlignment != 0 {
			v.report(v.problemOf(&e, "the payload is not aligned to %d bytes", xnnpackAlignment))
		}
		if shared := e.Offset == prev.Offset && e.Size == prev.Size; !shared && e.Offset < end {
			v.report(v.problemOf(&e, "the payload overlaps that of %q, which ends at %d", prev.Name, end))
		}
		if e.Offset+e.Size > end {
			end, prev = e.Offset+e.Size, e
		}
		v.entries = append(v.entries, e)
	}
	if len(v.foreign) == 0 && len(v.problems) == 0 {
		v.report(v.problem(v.indexAt, "the index has no entries; ExecuTorch takes the file for a damaged one"))
	}
}

// payloads checks the checksums of payloads, each once.
func (v *verifier) payloads() {
	type payload struct {
		offset, size, minimum int64
		sum                   Digest
	}
	var done, total int64
	for _, e := range v.entries {
		total += e.Size
	}
	checked := map[payload]bool{}
	for _, e := range v.entries {
		key := payload{e.Offset, e.Size, e.LeastSize, e.Sum}
		if !checked[key] {
			checked[key] = true
			var p *Problem
			switch err := v.Check(e); {
			case errors.As(err, &p):
				v.report(p)
			case err != nil: // the disk cannot give it
				v.report(v.problemOf(&e, "the payload cannot be read: %v", err))
			}
		}
		if done += e.Size; v.progress != nil {
			v.progress(done, total)
		}
	}
}
