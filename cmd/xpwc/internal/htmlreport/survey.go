package htmlreport

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	before  []cachefile.Entry // entries with the same payload
}

// A source is where kernels come from.
type source struct {
	origin
	Entries int
	Bytes   int64 // of payloads, each counted once for a source
	Shared  int64 // of these, shared with entries of other sources
}

// An origin is an entry's record of its source.
type origin struct {
	digest cachefile.Digest
	name   string
}

// Called is the name of the source's file, where it is recorded.
func (o origin) Called() string { return text(o.name, mostName) }

// Digest is the digest of the source's whole path.
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

// Whose names the runtime that a format belongs to, if it is not xpwc's own.
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

// nameOf returns a tensor's name: the kernel's, or in ExecuTorch's files that of the kernel and the bias.
func nameOf(e cachefile.Entry) string { return cmp.Or(e.Kernel, e.Name) }

// A layer is a part of the names of entries: what they have in common up to a dot or a slash. A leaf is an entry.
type layer struct {
	name     string // with its separator: "/conv2d_6"
	entries  int
	bytes    int64 // of payloads; one that several entries have is the first one's
	leaf     bool
	rest     bool // several small ones that the page does not show by themselves
	children []*layer
	byName   map[string]*layer // without leaves
}

// pathOf returns the layers that an entry is in: its layout, if there are several, and the parts of its name.
func (s *survey) pathOf(e *cachefile.Entry) (path []string) {
	if s.several {
		path = append(path, s.layoutName(e.Layout))
	}
	name := nameOf(*e)
	for name != "" && len(path) < mostLayers-1 {
		begin := strings.IndexFunc(name, func(r rune) bool { return !separates(r) })
		if begin < 0 {
			break
		}
		n := strings.IndexFunc(name[begin:], separates)
		if n < 0 {
			break
		}
		path = append(path, name[:begin+n])
		name = name[begin+n:]
	}
	return append(path, name)
}

func separates(r rune) bool { return r == '.' || r == '/' }

// layoutName is what a layout is called in the treemap.
func (s *survey) layoutName(fingerprint cachefile.Digest) string {
	short := fingerprint.String()[:shortDigest]
	for _, l := range s.Info.Layouts {
		if l.Fingerprint == fingerprint && l.Description != "" {
			features, _, _ := strings.Cut(l.Description, ",")
			return features + " (" + short + "): "
		}
	}
	return short + ": "
}

// add adds an entry, of which so many bytes count.
func (l *layer) add(path []string, bytes int64) {
	for _, name := range path {
		l.entries++
		l.bytes += bytes
		if l.byName == nil {
			l.byName = map[string]*layer{}
		}
		next := l.byName[name]
		if next == nil {
			next = &layer{name: name}
			l.byName[name] = next
			l.children = append(l.children, next)
		}
		l = next
	}
	l.entries++
	l.bytes += bytes
	l.children = append(l.children, &layer{entries: 1, bytes: bytes, leaf: true})
}

// join makes one layer of each that has one child only, names the leaves of the others, and sorts.
func (l *layer) join() {
	leaves := 0
	for _, c := range l.children {
		switch {
		case !c.leaf:
			c.join()
		case len(l.children) > 1:
			leaves++
			c.name = fmt.Sprintf(" number %d", leaves)
		}
	}
	for len(l.children) == 1 && l.name != "" {
		only := l.children[0]
		l.name, l.leaf, l.children = l.name+only.name, only.leaf, only.children
	}
	l.byName = nil
	l.sort()
}

// cut leaves at most so many layers below the root: the children of the largest ones come first. Of many children the
// small ones become one.
func (l *layer) cut(most int) {
	const (
		always = 24   // how many children of a layer are shown however small they are
		part   = 5000 // of the whole, which the others must have
	)
	least := l.bytes / part
	for queue := []*layer{l}; len(queue) > 0; {
		largest := slices.MaxFunc(queue, func(a, b *layer) int { return cmp.Compare(a.bytes, b.bytes) })
		at := slices.Index(queue, largest)
		queue = slices.Delete(queue, at, at+1)
		all := largest.children
		n := 0
		for n < len(all) && (n < always || all[n].bytes >= least) {
			n++
		}
		if most-1 < min(n, always) {
			largest.children = nil // it is shown without them
			continue
		}
		n = min(n, most-1)
		for _, c := range all[:n] {
			if len(c.children) > 0 {
				queue = append(queue, c)
			}
		}
		most -= n
		if n < len(all) {
			most--
			largest.children = append(all[:n:n], smaller(all[n:]))
			largest.sort()
		}
	}
}

// smaller makes one of several layers.
func smaller(layers []*layer) *layer {
	one := &layer{name: fmt.Sprintf("%d smaller", len(layers)), rest: true}
	for _, l := range layers {
		one.entries += l.entries
		one.bytes += l.bytes
	}
	return one
}

// sort orders children by size, largest first; equal sizes keep the file's order.
func (l *layer) sort() {
	slices.SortStableFunc(l.children, func(a, b *layer) int { return cmp.Compare(b.bytes, a.bytes) })
}
