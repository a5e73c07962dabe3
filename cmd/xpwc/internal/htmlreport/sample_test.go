package htmlreport

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

var (
	avx2   = format.Layout{Fingerprint: format.Digest{0xa1}, Description: "amd64 avx2, XNNPACK e595e247"}
	avx512 = format.Layout{Fingerprint: format.Digest{0xb2}, Description: "amd64 avx512vnni, XNNPACK e595e247"}

	convolution = packing.Family{Operator: packing.Convolution2D, Input: 1, Kernel: 1, Bias: 1, Output: 1}
	connected   = packing.Family{Operator: packing.FullyConnected, Input: 9, Kernel: 6, Output: 1}
)

// A weight is what a sample file has an entry of.
type weight struct {
	kernel string
	size   int
	layout format.Layout
	family packing.Family
	source byte
	shared bool // with the one before
}

// sample is a native file in which each commit adds some weights.
func sample(t testing.TB, commits ...[]weight) []byte {
	t.Helper()
	var body []byte
	var records []format.Record
	header := format.NewHeader([16]byte{1, 2, 3})
	for g, weights := range commits {
		for i, w := range weights {
			payload := bytes.Repeat([]byte{byte(g), byte(i), byte(i >> 8), byte(i >> 16)}, w.size/4+1)[:w.size]
			r := format.Record{
				Key: format.Key{Layout: w.layout.Fingerprint, Kernel: w.kernel}, Seed: uint32(i), Family: w.family,
				Source: format.Digest{w.source}, PackedAt: int64(1_700_000_000 + 100*g), UsedAt: 1_800_000_000,
			}
			if w.shared {
				last := records[len(records)-1]
				r.Offset, r.Size, r.Sum = last.Offset, last.Size, last.Sum
			} else {
				body = append(body, make([]byte, int(format.Align(uint64(len(body))))-len(body))...)
				r.Offset, r.Size = uint64(format.HeaderSize+len(body)), uint64(w.size)
				r.Sum = digest.Of(payload)
				body = append(body, payload...)
			}
			records = append(records, r)
		}
		tail := uint64(format.HeaderSize + len(body))
		slot, block, err := format.EncodeGeneration(uint64(g+1), tail, []format.Layout{avx2, avx512},
			slices.Clone(records))
		require.NoError(t, err)
		body = slices.Concat(body, make([]byte, slot.IndexOffset-tail), block)
		b, offset := slot.Encode([16]byte{1, 2, 3})
		copy(header[offset:], b)
	}
	return slices.Concat(header, body)
}

// rendered returns the page about a file.
func rendered(t testing.TB, file []byte, o Options) string {
	t.Helper()
	f, err := cachefile.NewFile(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	var page strings.Builder
	_, err = Write(&page, f, o)
	require.NoError(t, err)
	require.LessOrEqual(t, page.Len(), MaxBytes)
	return page.String()
}

// An element is one of a page.
type element struct {
	name     string
	attr     map[string]string
	children []*element
	text     string // of it and all that is in it
}

// parsed parses a page, which is XML except for its script, its styles and the doctype.
func parsed(t testing.TB, page string) *element {
	t.Helper()
	require.True(t, strings.HasPrefix(page, "<!DOCTYPE html>\n"))
	for _, s := range []string{styleSource, scriptSource} {
		require.Equal(t, 1, strings.Count(page, s), "as it is, so that the policy's digest of the script is right")
		page = strings.Replace(page, s, "", 1)
	}
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = map[string]string{}
	root := &element{}
	open := []*element{root}
	var text []byte
	begins := []int{0}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			last := open[len(open)-1]
			last.children = append(last.children, e)
			open, begins = append(open, e), append(begins, len(text))
		case xml.EndElement:
			last := len(open) - 1
			open[last].text = string(text[begins[last]:])
			open, begins = open[:last], begins[:last]
		case xml.CharData:
			text = append(text, token...)
		}
	}
	require.Len(t, open, 1)
	root.text = string(text)
	return root
}

// search returns the elements for which is returns true.
func (e *element) search(match func(*element) bool) (elements []*element) {
	for _, c := range e.children {
		if match(c) {
			elements = append(elements, c)
		}
		elements = append(elements, c.search(match)...)
	}
	return elements
}

func named(name string) func(*element) bool {
	return func(e *element) bool { return e.name == name }
}

func (e *element) id(id string) *element {
	elements := e.search(func(e *element) bool { return e.attr["id"] == id })
	if len(elements) != 1 {
		return &element{}
	}
	return elements[0]
}

// rows are the cells of the tables in it.
func (e *element) rows() (rows [][]string) {
	for _, r := range e.search(named("tr")) {
		var cells []string
		for _, c := range r.children {
			cells = append(cells, strings.TrimSpace(c.text))
		}
		rows = append(rows, cells)
	}
	return rows
}

// boxes returns the treemap's boxes, which the script zooms into, and the boxes below them.
func (e *element) boxes() []*element {
	return e.id("map").search(func(e *element) bool { return strings.HasPrefix(e.attr["class"], "box ") })
}

var sampleOptions = Options{Path: "dir/model.xpwc", Tool: "xpwc 1", Created: time.Unix(1_800_000_000, 0)}

func models() [][]weight {
	return [][]weight{
		{{kernel: "model.layers.0.mlp.up", size: 8000, layout: avx2, family: connected, source: 1},
			{kernel: "model.layers.0.mlp.down", size: 8000, layout: avx2, family: connected, source: 1},
			{kernel: "model.layers.1.mlp.up", size: 8000, layout: avx2, family: connected, source: 1},
			{kernel: "head/Conv2D", size: 4000, layout: avx2, family: convolution, source: 1}},
		{{kernel: "other/Conv2D", size: 2000, layout: avx512, family: convolution, source: 2},
			{kernel: "third/Conv2D", layout: avx512, family: convolution, source: 3, shared: true},
			{kernel: "unknown", size: 1000, layout: avx512}},
	}
}

func manyWeights(n int, name func(i int) string) (w []weight) {
	for i := range n {
		w = append(w, weight{kernel: name(i), size: 64 + i%64, layout: avx2, family: connected, source: byte(i)})
	}
	return w
}

func kernelName(i int) string { return fmt.Sprintf("model.layers.%d.block.%d.weight", i/1000, i%1000) }
