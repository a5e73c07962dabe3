package htmlreport

import (
	"cmp"
	"errors"
	"slices"

	"xpwc/cachefile"
	"xpwc/packing"
)

// A survey is what is in a file, added up.
type survey struct {
	info     cachefile.Info
	segments []cachefile.Segment
	commits  []cachefile.Commit
	damaged  []error

	root     *layer
	kernels  []kernel // in the order of layouts, then by bytes
	colours  []colour
	sources  []source
	shared   []sharedPayload // of several entries, the most that is spared first
	sharing  int             // how many of these there are
	spared   int64           // bytes that would be in the file if each entry had its own
	equal    int             // payloads that another one equals
	again    int64           // and their bytes
	largest  []cachefile.Entry
	variants int
}

// A kernel is what entries of a layout are packed for.
type kernel struct {
	layout  cachefile.Digest
	family  packing.Family
	entries int
	bytes   int64
}

// A source is where kernels come from.
type source struct {
	digest  cachefile.Digest
	entries int
	bytes   int64 // of payloads, each counted once for a source
	shared  int64 // of these, those that entries of other sources have too
}

// A sharedPayload is one that several entries have.
type sharedPayload struct {
	size    int64
	entries int
	names   []string
	sources int
}

func (p sharedPayload) spared() int64 { return p.size * int64(p.entries-1) }

func look(f *cachefile.File) (*survey, error) {
	s := &survey{root: &layer{}}
	var err error
	if s.info, err = f.Info(); err != nil && !errors.Is(err, cachefile.ErrDamaged) {
		return nil, err
	}
	s.segments, _ = f.Map() // whose error Info had
	if s.commits, err = f.Commits(); err != nil {
		return nil, err
	}
	var a adder
	a.begin(s)
	for e, err := range f.Entries() {
		if err != nil {
			s.damaged = append(s.damaged, err)
			continue
		}
		a.add(e)
	}
	a.end()
	return s, nil
}

// An adder adds entries to a survey, in the order of their payloads.
type adder struct {
	*survey
	several  bool // layouts
	kernels  map[kernelKey]*kernel
	coloured map[string]int64
	sources  map[cachefile.Digest]*source
	sums     map[content]bool
	before   []cachefile.Entry // those that have the same payload
}

type kernelKey struct {
	layout cachefile.Digest
	family packing.Family
}

type content struct {
	sum  cachefile.Digest
	size int64
}

func (a *adder) begin(s *survey) {
	*a = adder{survey: s, several: len(s.info.Layouts) > 1, kernels: map[kernelKey]*kernel{},
		coloured: map[string]int64{}, sources: map[cachefile.Digest]*source{}, sums: map[content]bool{}}
}

func (a *adder) native() bool { return a.info.Format == cachefile.Native }

func (a *adder) add(e cachefile.Entry) {
	if len(a.before) > 0 && (a.before[0].Offset != e.Offset || a.before[0].Size != e.Size) {
		a.payload()
	}
	a.before = append(a.before, e)
	bytes := e.Size
	if len(a.before) > 1 {
		bytes = 0 // which the first has
	}
	key := kernelKey{e.Layout, e.Family}
	k := a.kernels[key]
	if k == nil {
		k = &kernel{layout: e.Layout, family: e.Family}
		a.kernels[key] = k
	}
	k.entries++
	k.bytes += bytes
	a.coloured[colourOf(e.Family)] += bytes
	a.root.add(a.pathOf(&e), &e, bytes, a.several)
	a.largest = append(a.largest, e)
	if len(a.largest) >= 8*mostLarge {
		a.keepLargest()
	}
	if e.Variant {
		a.variants++
	}
}

// payload ends the entries of a payload.
func (a *adder) payload() {
	size := a.before[0].Size
	from := map[cachefile.Digest]bool{}
	for _, e := range a.before {
		from[e.Source] = true
	}
	if a.native() {
		for _, e := range a.before {
			if a.sources[e.Source] == nil {
				a.sources[e.Source] = &source{digest: e.Source}
			}
			a.sources[e.Source].entries++
		}
		for digest := range from {
			a.sources[digest].bytes += size
			if len(from) > 1 {
				a.sources[digest].shared += size
			}
		}
		key := content{a.before[0].Sum, size}
		if a.sums[key] {
			a.equal++
			a.again += size
		}
		a.sums[key] = true
	}
	if len(a.before) > 1 {
		p := sharedPayload{size: size, entries: len(a.before), sources: len(from)}
		for _, e := range a.before[:min(len(a.before), 3)] {
			p.names = append(p.names, nameOf(&e))
		}
		a.sharing++
		a.spared += p.spared()
		a.shared = append(a.shared, p)
		if len(a.shared) >= 4*mostRows {
			a.keepShared()
		}
	}
	a.before = a.before[:0]
}

func (a *adder) keepLargest() {
	slices.SortStableFunc(a.largest, func(x, y cachefile.Entry) int { return cmp.Compare(y.Size, x.Size) })
	a.largest = a.largest[:min(len(a.largest), mostLarge)]
}

func (a *adder) keepShared() {
	slices.SortStableFunc(a.shared, func(x, y sharedPayload) int { return cmp.Compare(y.spared(), x.spared()) })
	a.shared = a.shared[:min(len(a.shared), mostRows)]
}

func (a *adder) end() {
	if len(a.before) > 0 {
		a.payload()
	}
	a.keepLargest()
	a.keepShared()
	place := map[cachefile.Digest]int{}
	for i, l := range a.info.Layouts {
		place[l.Fingerprint] = i
	}
	for _, k := range a.kernels {
		a.survey.kernels = append(a.survey.kernels, *k)
	}
	slices.SortFunc(a.survey.kernels, func(x, y kernel) int {
		return cmp.Or(cmp.Compare(place[x.layout], place[y.layout]), cmp.Compare(y.bytes, x.bytes),
			cmp.Compare(x.family.String(), y.family.String()))
	})
	for _, s := range a.sources {
		a.survey.sources = append(a.survey.sources, *s)
	}
	slices.SortFunc(a.survey.sources, func(x, y source) int {
		return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.digest.String(), y.digest.String()))
	})
	a.survey.colours = rank(a.coloured)
	a.root.join()
}

// nameOf is what a tensor is called: the kernel's name, or in ExecuTorch's files that of the kernel and the bias.
func nameOf(e *cachefile.Entry) string {
	if e.Kernel != "" {
		return e.Kernel
	}
	return e.Name
}
