package cachefile_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/output"
)

var (
	id          = [16]byte{1, 2, 3}
	thisLayout  = format.Layout{Fingerprint: format.Digest{0xa}, Description: "amd64"}
	otherLayout = format.Layout{Fingerprint: format.Digest{0xb}, Description: "amd64 without AVX"}
)

// A weight is what a sample file has an entry of.
type weight struct {
	kernel, bias string
	layout       format.Layout
	seed         uint32
	size         int
	used         int64
	flags        format.Flags
	shared       bool // with the one before
}

// weights are of two layouts, one a variant, two of one payload, with names that are equal when joined.
var weights = []weight{
	{kernel: "conv", bias: "conv.bias", layout: thisLayout, seed: 1, size: 1000, used: 50},
	{kernel: "dense", layout: thisLayout, seed: 2, size: 300_000, used: 60},
	{kernel: "dense", layout: otherLayout, seed: 2, size: 200_000, used: 10},
	{kernel: "tied", layout: thisLayout, seed: 3, size: 77, used: 20, flags: format.Tied},
	{kernel: "tied", layout: thisLayout, seed: 4, used: 30, shared: true},
	{kernel: "scaled", layout: otherLayout, seed: 5, size: 128, used: 40, flags: format.Variant},
}

// payloadOf is made up, and different for every weight.
func payloadOf(i int, w weight) []byte {
	return bytes.Repeat([]byte(fmt.Sprint(i, w.kernel, w.layout.Description, ".")), w.size)[:w.size]
}

// A maker lays out native files.
type maker struct {
	body    []byte
	records []format.Record
	slots   []format.Slot
	gap     int    // dead bytes before each payload
	skipped uint64 // generations before the first

	evidence string // of the first layout
}

func (m *maker) add(ws ...weight) {
	for i, w := range ws {
		var offset int
		p := payloadOf(i, w)
		if w.shared {
			last := m.records[len(m.records)-1]
			offset, p = int(last.Offset), m.body[last.Offset-format.HeaderSize:][:last.Size]
		} else {
			m.body = append(m.body, make([]byte, m.gap+int(format.Align(uint64(len(m.body))))-len(m.body))...)
			offset = format.HeaderSize + len(m.body)
			m.body = append(m.body, p...)
		}
		m.records = append(m.records, format.Record{
			Key:  format.Key{Layout: w.layout.Fingerprint, Kernel: w.kernel, Bias: w.bias, HasBias: w.bias != ""},
			Seed: w.seed, Flags: w.flags, Offset: uint64(offset), Size: uint64(len(p)), Sum: digest.Of(p),
			Digests: format.Hashes{Kernel: format.Digest{9, byte(i)}}, PackedAt: 1000, UsedAt: 1000 + w.used,
		})
	}
}

func (m *maker) commit(t testing.TB) {
	generation := m.skipped + uint64(len(m.slots)) + 1
	tail := uint64(format.HeaderSize + len(m.body))
	layouts := []format.Layout{thisLayout, otherLayout}
	layouts[0].Evidence = m.evidence
	slot, block, err := format.EncodeGeneration(generation, tail, layouts, m.records)
	require.NoError(t, err)
	m.body = slices.Concat(m.body, make([]byte, slot.IndexOffset-tail), block)
	m.slots = append(m.slots, slot)
}

func (m *maker) bytes() []byte {
	header := format.NewHeader(id)
	for _, s := range m.slots {
		b, offset := s.Encode(id)
		copy(header[offset:], b)
	}
	return slices.Concat(header, m.body)
}

func sample(t testing.TB) []byte {
	var m maker
	m.add(weights...)
	m.commit(t)
	return m.bytes()
}

func write(t testing.TB, content []byte) string {
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// copyTo writes a copy at a path.
func copyTo(f *cachefile.File, path string, keep func(cachefile.Entry) bool, o cachefile.WriteOptions) error {
	return output.Write(path, func(dst *os.File) error { return f.Write(dst, keep, o) })
}

// installAt installs a file at a path.
func installAt(path string, b []byte, accept func(*cachefile.Info) error) error {
	return output.Write(path, func(dst *os.File) error {
		return cachefile.Install(dst, func(w io.Writer) error { _, err := w.Write(b); return err }, accept)
	})
}

func open(t testing.TB, path string) *cachefile.File {
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func entries(t testing.TB, f *cachefile.File) (listed []cachefile.Entry) {
	for e, err := range f.Entries() {
		require.NoError(t, err)
		listed = append(listed, e)
	}
	return listed
}

func content(t testing.TB, f *cachefile.File, e cachefile.Entry) []byte {
	b := make([]byte, e.Size)
	_, err := f.Payload(e).ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

// requireSound verifies a file.
func requireSound(t testing.TB, path string) {
	problems, err := cachefile.Verify(path, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// executorchFile is what ExecuTorch writes: payloads in pages of their own.
func executorchFile(names ...string) []byte {
	var file []byte
	var trailer []format.TrailerEntry
	for i, name := range names {
		p := payloadOf(i, weight{kernel: name, size: 1000 * (i + 1)})
		trailer = append(trailer,
			format.TrailerEntry{Name: name, Offset: uint64(len(file)), Size: uint64(len(p)), Seed: uint32(i + 1)})
		file = append(file, p...)
		file = append(file, make([]byte, -len(file)&4095)...)
	}
	return append(file, format.EncodeTrailer(trailer, uint64(len(file)))...)
}
