package htmlreport

import (
	"cmp"
	"errors"
	"slices"

	"xpwc/cachefile"
)

// A survey is what is in a file, added up.
type survey struct {
	Info     cachefile.Info
	segments []cachefile.Segment
	Commits  []cachefile.Commit // the last one first
	Damaged  []error            // of records that could not be read

	root    *layer
	Sources []source
	Sharing int   // how many payloads are of several entries
	Spared  int64 // bytes that would be in the file if each entry had its own

	// While entries are added, in the order of their payloads:
	several bool // layouts
	sources map[origin]*source
	before  []cachefile.Entry // those that have the same payload
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

// Called is the name of the source's file, where it is recorded.
func (o origin) Called() string { return text(o.name, mostName) }

// Digest is that of the whole of what the source is called.
func (o origin) Digest() string {
	if o.digest == (cachefile.Digest{}) {
		return "not recorded"
	}
	return o.digest.String()
}

func look(f File) (*survey, error) {
	s := &survey{root: &layer{}, sources: map[origin]*source{}}
	var err error
	if s.Info, err = f.Info(); err != nil && !errors.Is(err, cachefile.ErrDamaged) {
		return nil, err
	}
	s.segments, _ = f.Map() // whose error Info had
	if s.Commits, err = f.Commits(); err != nil {
		return nil, err
	}
	slices.Reverse(s.Commits)
	s.several = len(s.Info.Layouts) > 1
	for e, err := range f.Entries() {
		if err != nil {
			s.Damaged = append(s.Damaged, err)
			continue
		}
		s.add(e)
	}
	s.end()
	return s, nil
}

// Native reports whether the file is xpwc's own.
func (s *survey) Native() bool { return s.Info.Format == cachefile.Native }

// Whose says whose format it is, if it is not xpwc's own.
func Whose(format cachefile.Format) string {
	if format == cachefile.XPWC2 {
		return "ExecuTorch"
	}
	return "LiteRT"
}

func (s *survey) add(e cachefile.Entry) {
	if len(s.before) > 0 && (s.before[0].Offset != e.Offset || s.before[0].Size != e.Size) {
		s.payload()
	}
	s.before = append(s.before, e)
	bytes := e.Size
	if len(s.before) > 1 {
		bytes = 0 // which the first has
	}
	s.root.add(s.pathOf(&e), bytes)
}

// payload ends the entries of a payload.
func (s *survey) payload() {
	size := s.before[0].Size
	from := map[origin]bool{}
	for _, e := range s.before {
		of := origin{e.Source, e.SourceName}
		from[of] = true
		if s.sources[of] == nil {
			s.sources[of] = &source{origin: of}
		}
		s.sources[of].Entries++
	}
	for of := range from {
		s.sources[of].Bytes += size
		if len(from) > 1 {
			s.sources[of].Shared += size
		}
	}
	if more := len(s.before) - 1; more > 0 {
		s.Sharing++
		s.Spared += size * int64(more)
	}
	s.before = s.before[:0]
}

func (s *survey) end() {
	if len(s.before) > 0 {
		s.payload()
	}
	for _, of := range s.sources {
		s.Sources = append(s.Sources, *of)
	}
	slices.SortFunc(s.Sources, func(x, y source) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.digest.String(), y.digest.String()))
	})
	s.root.join()
}

// nameOf is what a tensor is called: the kernel's name, or in ExecuTorch's files that of the kernel and the bias.
func nameOf(e cachefile.Entry) string { return cmp.Or(e.Kernel, e.Name) }
