package tflite

import (
	"cmp"
	"maps"
	"os"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/output"
)

// A layout is where a rewritten model has the bytes of the model, after those that come before them. Large models have
// their buffers outside the flatbuffer, by offset: these can be placed anywhere.
type layout struct {
	holes  []output.Hole          // in the flatbuffer
	places map[flatbuf.Span]int64 // of buffers outside the flatbuffer
	absent int64                  // where the bytes begin that are read as zeros, to the end
	size   int64
}

// outsideAlignment is that of a buffer outside the flatbuffer.
const outsideAlignment = 64

func alignUp(n, align int64) int64 { return (n + align - 1) / align * align }

// unmoved is the layout in which every buffer stays where it is. Kernels are holes, if any are given.
func (s *Skeleton) unmoved(kernels []*Kernel) layout {
	l := layout{places: map[flatbuf.Span]int64{}, absent: int64(len(s.data)), size: int64(len(s.data))}
	for _, span := range s.outside() {
		l.places[span] = span.Offset
	}
	for _, k := range kernels {
		l.holes = append(l.holes, output.Hole(s.span(k.Buffer)))
	}
	return l
}

// cut is the layout without the bytes of kernels. In the flatbuffer they are holes. Those outside it share one range of
// zeros at the end, in which each has another address: LiteRT identifies buffers by their addresses.
func (s *Skeleton) cut(kernels []*Kernel) layout {
	l := layout{places: map[flatbuf.Span]int64{}, size: s.flat}
	var removed []flatbuf.Span
	for _, k := range kernels {
		if span := s.span(k.Buffer); s.isOutside(span) {
			removed = append(removed, span)
		} else {
			l.holes = append(l.holes, output.Hole(span))
		}
	}
	for _, span := range s.outside() {
		if !slices.Contains(removed, span) {
			l.places[span] = alignUp(l.size, outsideAlignment)
			l.size = l.places[span] + span.Size
		}
	}
	l.absent = l.size
	next := alignUp(l.size, page)
	for _, span := range removed {
		if _, placed := l.places[span]; !placed {
			l.places[span] = next
			l.size = max(l.size, next+span.Size)
			next += outsideAlignment
		}
	}
	return l
}

// isOutside reports whether a buffer's bytes are outside the flatbuffer.
func (s *Skeleton) isOutside(span flatbuf.Span) bool { return span.Offset >= s.flat }

// outside returns where the buffers outside the flatbuffer are, each place once, in order.
func (s *Skeleton) outside() []flatbuf.Span {
	places := map[flatbuf.Span]bool{}
	for _, b := range s.buffers {
		if b.Size > 0 && s.isOutside(b) {
			places[b] = true
		}
	}
	return slices.SortedFunc(maps.Keys(places), func(a, b flatbuf.Span) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
}

// holeBytes returns how many bytes take no space on a disk.
func (l *layout) holeBytes() (sum int64) {
	seen := map[output.Hole]bool{}
	for _, h := range append(slices.Clone(l.holes), output.Hole{Offset: l.absent, Size: l.size - l.absent}) {
		if !seen[h] {
			seen[h] = true
			sum += max(0, (h.Offset+h.Size)/page-(h.Offset+page-1)/page) * page
		}
	}
	return sum
}

// write writes the model's bytes at an offset that is the file's end.
func (l *layout) write(w *os.File, offset int64, s *Skeleton) {
	fault.Check(output.WriteWithHoles(w, offset, s.data[:s.flat], l.holes))
	fault.Check(w.Truncate(offset + l.size))
	for _, span := range s.outside() {
		place := l.places[span]
		if place >= l.absent || slices.Contains(l.holes, output.Hole(span)) {
			continue
		}
		fault.Value(w.WriteAt(span.In(s.data), offset+place))
	}
}
