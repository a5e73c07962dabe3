package bundle_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
	"xpwc/models/bundle"
	"xpwc/models/tflite"
)

const small = "testdata/small.litertlm"

func read(t testing.TB, b []byte) (*bundle.Bundle, error) {
	t.Helper()
	return bundle.Read(bytes.NewReader(b), int64(len(b)))
}

// content returns the bytes of a model in the small bundle.
func content(t testing.TB, section string) []byte {
	t.Helper()
	file, err := os.ReadFile(small)
	require.NoError(t, err)
	b, err := bundle.Open(small)
	require.NoError(t, err)
	s, err := b.Section(section)
	require.NoError(t, err)
	return file[s.Offset:][:s.Size]
}

func TestABundleListsItsSections(t *testing.T) {
	b, err := bundle.Open(small)
	require.NoError(t, err)
	require.Equal(t, bundle.LiteRTLM, b.Format)
	require.Equal(t, "1.7.0", b.Version)
	require.Contains(t, b.Metadata, bundle.Attribute{Key: "Authors", Value: "ODML"})
	var names []string
	for _, s := range b.Sections {
		names = append(names, s.Name+" "+string(s.Kind))
	}
	require.Equal(t, []string{"llmmetadataproto metadata", "executormetadataproto metadata",
		"hf_tokenizer_zlib tokenizer", "prefill_decode model", "embedder model"}, names)
	require.Equal(t, "tf_lite_prefill_decode", b.Models()[0].Role)
	_, err = b.Section("vision")
	require.ErrorIs(t, err, bundle.ErrUnknownSection)
	require.ErrorContains(t, err, "embedder", "the error lists the sections")
}

func TestAModelInABundleIsTheExtractedModel(t *testing.T) {
	for _, section := range []string{"prefill_decode", "embedder"} {
		path := filepath.Join(t.TempDir(), "extracted.tflite")
		require.NoError(t, os.WriteFile(path, content(t, section), 0o600))
		b, err := bundle.Open(small)
		require.NoError(t, err)
		s, err := b.Section(section)
		require.NoError(t, err)
		inside := &tflite.Options{Offset: s.Offset, Size: s.Size}
		names, err := tflite.Signatures(small, inside)
		require.NoError(t, err)
		extracted, err := tflite.Signatures(path, nil)
		require.NoError(t, err)
		require.Equal(t, extracted, names)
		for _, inside.Signature = range names {
			m, err := tflite.Open(small, inside)
			require.NoError(t, err)
			n, err := tflite.Open(path, &tflite.Options{Signature: inside.Signature})
			require.NoError(t, err)
			require.Equal(t, n.Inputs(), m.Inputs())
			require.Equal(t, n.WeightBytes(), m.WeightBytes())
			require.NoError(t, m.Close())
			require.NoError(t, n.Close())
		}
	}
}

func TestASectionOutsideTheFileIsNoModel(t *testing.T) {
	info, err := os.Stat(small)
	require.NoError(t, err)
	for _, o := range []tflite.Options{
		{Offset: -1, Size: 8}, {Offset: 8, Size: -1}, {Offset: info.Size(), Size: 1}, {Offset: 1, Size: info.Size()},
		{Offset: math.MaxInt64, Size: math.MaxInt64},
	} {
		_, err := tflite.Open(small, &o)
		require.ErrorIs(t, err, tflite.ErrMalformed, "%+v", o)
	}
}

// A member of a zip task.
type member struct {
	name    string
	method  uint16
	content []byte
}

func writeTask(t testing.TB, members ...member) []byte {
	t.Helper()
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	for _, m := range members {
		part, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		require.NoError(t, err)
		_, err = part.Write(m.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.SetComment("a task"))
	require.NoError(t, w.Close())
	return file.Bytes()
}

func TestATaskListsItsMembers(t *testing.T) {
	model := content(t, "embedder")
	file := writeTask(t,
		member{"TF_LITE_PREFILL_DECODE", zip.Store, model},
		member{"TOKENIZER_MODEL", zip.Store, []byte("pieces")},
		member{"METADATA", zip.Store, []byte("meta")},
		member{"docs/", zip.Store, nil},
		member{"docs/LICENSE", zip.Deflate, bytes.Repeat([]byte("licence "), 100)},
		member{"empty", zip.Store, nil},
		member{"pose.tflite", zip.Store, model})
	b, err := read(t, file)
	require.NoError(t, err)
	require.Equal(t, bundle.Task, b.Format)
	type row struct {
		name, role string
		kind       bundle.Kind
	}
	var rows []row
	for _, s := range b.Sections {
		rows = append(rows, row{s.Name, s.Role, s.Kind})
	}
	require.Equal(t, []row{
		{"TF_LITE_PREFILL_DECODE", "tf_lite_prefill_decode", bundle.Model},
		{"TOKENIZER_MODEL", "", bundle.Tokenizer},
		{"METADATA", "", bundle.Metadata},
		{"docs/LICENSE", "", bundle.Unknown},
		{"empty", "", bundle.Data},
		{"pose.tflite", "", bundle.Model},
	}, rows)
	require.Equal(t, "compressed by method 8", b.Sections[3].Type)
	for _, s := range b.Models() {
		require.Equal(t, model, file[s.Offset:][:s.Size])
	}
}

// litertlm returns a bundle with this header and some bytes behind it.
func litertlm(header flatbuf.Fields, version uint32) []byte {
	b := append([]byte("LITERTLM"), make([]byte, 24)...)
	binary.LittleEndian.PutUint32(b[8:], version)
	b = append(b, flatbuf.Build(header, "free")...)
	binary.LittleEndian.PutUint64(b[24:], uint64(len(b)))
	return append(b, make([]byte, 4096)...)
}

func section(begin, end uint64, dataType byte, items ...flatbuf.Fields) flatbuf.Fields {
	return flatbuf.Fields{0: items, 1: begin, 2: end, 3: dataType}
}

func withSections(sections ...flatbuf.Fields) flatbuf.Fields {
	return flatbuf.Fields{1: flatbuf.Fields{0: sections}}
}

func role(name string) flatbuf.Fields {
	return flatbuf.Fields{0: "model_type", 1: byte(9), 2: flatbuf.Fields{0: name}}
}

func TestWhatABundleHasAndThisPackageDoesNotKnowIsNamed(t *testing.T) {
	b, err := read(t, litertlm(withSections(
		section(2000, 2001, 200, flatbuf.Fields{0: "new", 1: byte(77), 2: flatbuf.Fields{}},
			flatbuf.Fields{0: "layers", 1: byte(6), 2: flatbuf.Fields{0: int32(-3)}}),
		section(2001, 2001, 2),
		section(2001, 2100, 3, role("TF_LITE_Vision_Encoder")),
		section(2100, 2200, 3, role("tf_lite_vision_encoder")),
		section(2200, 2300, 7, role("tf_lite_vision_encoder"))), 1))
	require.NoError(t, err)
	require.Equal(t, []bundle.Section{
		{Name: "type200", Kind: bundle.Unknown, Type: "type 200", Offset: 2000, Size: 1,
			Metadata: []bundle.Attribute{{Key: "new", Value: "type 77"}, {Key: "layers", Value: "-3"}}},
		{Name: "deprecated", Kind: bundle.Unused, Type: "Deprecated", Offset: 2001},
		{Name: "vision_encoder", Kind: bundle.Model, Type: "TFLiteModel", Role: "TF_LITE_Vision_Encoder",
			Offset: 2001, Size: 99},
		{Name: "vision_encoder-2", Kind: bundle.Model, Type: "TFLiteModel", Role: "tf_lite_vision_encoder",
			Offset: 2100, Size: 100},
		{Name: "vision_encoder.weights", Kind: bundle.Weights, Type: "TFLiteWeights", Role: "tf_lite_vision_encoder",
			Offset: 2200, Size: 100},
	}, b.Sections)
}

func TestMalformedBundlesAreErrors(t *testing.T) {
	whole := litertlm(withSections(section(2000, 2100, 3)), 1)
	size := uint64(len(whole))
	longHeader := bytes.Clone(whole)
	binary.LittleEndian.PutUint64(longHeader[24:], math.MaxUint64)
	task := writeTask(t, member{"a", zip.Store, []byte("content")})
	damaged := func(signature string, offset int, value byte) []byte {
		b := bytes.Clone(task)
		b[bytes.LastIndex(b, []byte(signature))+offset] = value
		return b
	}
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":                     {nil, bundle.ErrNotBundle},
		"another file":                {[]byte("TFL3TFL3TFL3"), bundle.ErrNotBundle},
		"only a magic":                {[]byte("LITERTLM"), bundle.ErrMalformed},
		"a later version":             {litertlm(withSections(), 2), bundle.ErrVersion},
		"a header beyond the file":    {longHeader, bundle.ErrMalformed},
		"a section beyond the file":   {litertlm(withSections(section(2000, size+1, 3)), 1), bundle.ErrMalformed},
		"a section in the header":     {litertlm(withSections(section(40, 2000, 3)), 1), bundle.ErrMalformed},
		"a section that ends first":   {litertlm(withSections(section(2100, 2000, 3)), 1), bundle.ErrMalformed},
		"sections without end":        {litertlm(withSections(make([]flatbuf.Fields, 1025)...), 1), bundle.ErrMalformed},
		"a task cut off":              {task[:len(task)-30], bundle.ErrMalformed},
		"a task without a member":     {damaged("PK\x01\x02", 0, 'Q'), bundle.ErrMalformed},
		"a member elsewhere":          {damaged("PK\x01\x02", 42, 9), bundle.ErrMalformed},
		"a member of two sizes":       {damaged("PK\x01\x02", 24, 9), bundle.ErrMalformed},
		"a member beyond the file":    {damaged("PK\x01\x02", 22, 9), bundle.ErrMalformed},
		"a name beyond the directory": {damaged("PK\x01\x02", 29, 9), bundle.ErrMalformed},
		"more members than entries":   {damaged("PK\x05\x06", 10, 9), bundle.ErrMalformed},
		"members without end":         {damaged("PK\x05\x06", 11, 9), bundle.ErrMalformed},
		"a directory elsewhere":       {damaged("PK\x05\x06", 18, 9), bundle.ErrMalformed},
	} {
		_, err := read(t, c.file)
		require.ErrorIs(t, err, c.want, name)
	}
}

// FuzzRead reads any bytes as a bundle: an error, or sections that lie in the file and have names of their own.
func FuzzRead(f *testing.F) {
	file, err := os.ReadFile(small)
	require.NoError(f, err)
	f.Add(file[:16<<10])
	f.Add(litertlm(withSections(section(2000, 2100, 3, role("tf_lite_aux"))), 1))
	f.Add(writeTask(f, member{"a", zip.Store, []byte("TFL3TFL3")}, member{"a", zip.Deflate, nil}))
	f.Fuzz(func(t *testing.T, file []byte) {
		b, err := read(t, file)
		if err != nil {
			for _, known := range []error{bundle.ErrNotBundle, bundle.ErrMalformed, bundle.ErrVersion} {
				if errors.Is(err, known) {
					return
				}
			}
			require.NoError(t, err)
		}
		names := map[string]bool{}
		for _, s := range b.Sections {
			require.False(t, s.Offset < 0 || s.Size < 0 || s.Size > int64(len(file)) ||
				s.Offset > int64(len(file))-s.Size, "%+v", s)
			require.False(t, names[s.Name], s.Name)
			names[s.Name] = true
		}
	})
}
