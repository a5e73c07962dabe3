package htmlreport

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"xpwc/cachefile"
	"xpwc/litert"
)

// A survey is what is in a file, added up.
type survey struct {
	Info     cachefile.Info
	segments []cachefile.Segment
	commits  []cachefile.Commit
	damaged  []error

	root     *layer
	Colours  []colour
	Sources  []source
	sharing  int   // how many payloads are of several entries
	spared   int64 // bytes that would be in the file if each entry had its own
	variants int
}

// A source is where kernels come from.
type source struct {
	origin
	Entries int
	Bytes   int64 // of payloads, each counted once for a source
	Shared  int64 // of these, those that entries of other sources have too
}

// An origin is what an entry says of its source.
type origin struct {
	digest cachefile.Digest
	name   string
}

func originOf(e *cachefile.Entry) origin { return origin{e.Source, e.SourceName} }

// Called is the name of the source's file, where it is recorded.
func (o origin) Called() string { return text(o.name, mostName) }

// Digest is that of the whole of what the source is called.
func (o origin) Digest() string {
	if o.digest == (cachefile.Digest{}) {
		return "not recorded"
	}
	return o.digest.String()
}

func look(f *cachefile.File) (*survey, error) {
	s := &survey{root: &layer{}}
	var err error
	if s.Info, err = f.Info(); err != nil && !errors.Is(err, cachefile.ErrDamaged) {
		return nil, err
	}
	s.segments, _ = f.Map() // whose error Info had
	if s.commits, err = f.Commits(); err != nil {
		return nil, err
	}
	s.addAll(f.Entries())
	return s, nil
}

// lookLiteRT looks at a file of LiteRT.
func lookLiteRT(f *litert.File) *survey {
	s := &survey{root: &layer{}, Info: cachefile.Info{Format: formatLiteRT, Version: litert.Version,
		Entries: len(f.Entries)}}
	s.Info.FileBytes, s.Info.PayloadBytes = f.FileBytes, f.PayloadBytes()
	s.segments = []cachefile.Segment{
		{Kind: cachefile.Header, Size: f.HeaderBytes()},
		{Kind: cachefile.Payload, Size: f.PayloadBytes()},
		{Kind: cachefile.Index, Size: f.ListBytes},
		{Kind: cachefile.Padding, Size: f.FileBytes - f.HeaderBytes() - f.PayloadBytes() - f.ListBytes},
	}
	byOffset := func(a, b litert.Entry) int { return cmp.Compare(a.Offset, b.Offset) }
	s.addAll(func(yield func(cachefile.Entry, error) bool) {
		for _, e := range slices.SortedFunc(slices.Values(f.Entries), byOffset) {
			if !yield(cachefile.Entry{Name: e.Name(), Seed: e.Seed, Offset: e.Offset, Size: e.Size}, nil) {
				return
			}
		}
	})
	return s
}

// formatLiteRT is the format of LiteRT's files, beside those of package cachefile.
const formatLiteRT cachefile.Format = "litert"

// addAll adds the entries of a file, in the order of their payloads.
func (s *survey) addAll(entries iter.Seq2[cachefile.Entry, error]) {
	a := adder{survey: s, several: len(s.Info.Layouts) > 1, coloured: map[string]int64{}, sources: map[origin]*source{}}
	for e, err := range entries {
		if err != nil {
			s.damaged = append(s.damaged, err)
			continue
		}
		a.add(e)
	}
	a.end()
}

// An adder adds entries to a survey, in the order of their payloads.
type adder struct {
	*survey
	several  bool // layouts
	coloured map[string]int64
	sources  map[origin]*source
	before   []cachefile.Entry // those that have the same payload
}

// Native reports whether the file is xpwc's own.
func (s *survey) Native() bool { return s.Info.Format == cachefile.Native }

// Whose says whose the file is if it is not xpwc's own.
func (s *survey) Whose() string {
	if s.Info.Format == formatLiteRT {
		return "LiteRT"
	}
	return "ExecuTorch"
}

func (a *adder) add(e cachefile.Entry) {
	if len(a.before) > 0 && (a.before[0].Offset != e.Offset || a.before[0].Size != e.Size) {
		a.payload()
	}
	a.before = append(a.before, e)
	bytes := e.Size
	if len(a.before) > 1 {
		bytes = 0 // which the first has
	}
	a.coloured[colourOf(e.Family)] += bytes
	a.root.add(a.pathOf(&e), &e, bytes, a.several)
	if e.Variant {
		a.variants++
	}
}

// payload ends the entries of a payload.
func (a *adder) payload() {
	size := a.before[0].Size
	from := map[origin]bool{}
	for _, e := range a.before {
		from[originOf(&e)] = true
	}
	if a.Native() {
		for _, e := range a.before {
			of := originOf(&e)
			if a.sources[of] == nil {
				a.sources[of] = &source{origin: of}
			}
			a.sources[of].Entries++
		}
		for of := range from {
			a.sources[of].Bytes += size
			if len(from) > 1 {
				a.sources[of].Shared += size
			}
		}
	}
	if more := len(a.before) - 1; more > 0 {
		a.sharing++
		a.spared += size * int64(more)
	}
	a.before = a.before[:0]
}

func (a *adder) end() {
	if len(a.before) > 0 {
		a.payload()
	}
	for _, s := range a.sources {
		a.Sources = append(a.Sources, *s)
	}
	slices.SortFunc(a.Sources, func(x, y source) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.digest.String(), y.digest.String()))
	})
	a.Colours = rank(a.coloured)
	a.root.join()
}

// nameOf is what a tensor is called: the kernel's name, or in ExecuTorch's files that of the kernel and the bias.
func nameOf(e cachefile.Entry) string { return cmp.Or(e.Kernel, e.Name) }
