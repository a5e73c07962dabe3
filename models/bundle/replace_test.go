package bundle_test

import (
	"archive/zip"
	"bytes"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
	"xpwc/internal/output"
	"xpwc/models/bundle"
)

func fileOf(t testing.TB, content []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	_, err = f.Write(content)
	require.NoError(t, err)
	return f
}

// replaced returns the bundle at a path with other sections.
func replaced(t testing.TB, path string, contents map[string][]byte) ([]byte, error) {
	t.Helper()
	files := map[string]*os.File{}
	for name, content := range contents {
		files[name] = fileOf(t, content)
	}
	dst := fileOf(t, nil)
	err := bundle.Replace(dst, path, files)
	if err == nil {
		err = bundle.Mark(dst)
	}
	got, readErr := os.ReadFile(dst.Name())
	require.NoError(t, readErr)
	return got, err
}

// storedTask returns a task as MediaPipe's bundler writes it: sizes are before the members.
func storedTask(t testing.TB, members ...member) []byte {
	t.Helper()
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	for _, m := range members {
		part, err := w.CreateRaw(&zip.FileHeader{Name: m.name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(m.content),
			CompressedSize64: uint64(len(m.content)), UncompressedSize64: uint64(len(m.content))})
		require.NoError(t, err)
		_, err = part.Write(m.content)
		require.NoError(t, err)
	}
	require.NoError(t, w.SetComment("a task"))
	require.NoError(t, w.Close())
	return file.Bytes()
}

// requireSections requires that a bundle has the sections of another one, except for some contents.
func requireSections(t testing.TB, got, source []byte, contents map[string][]byte) {
	t.Helper()
	want, err := read(t, source)
	require.NoError(t, err)
	b, err := read(t, got)
	require.NoError(t, err)
	require.Len(t, b.Sections, len(want.Sections))
	for i, s := range b.Sections {
		content, ok := contents[s.Name]
		if old := want.Sections[i]; !ok {
			content = source[old.Offset:][:old.Size]
		}
		require.Equal(t, want.Sections[i].Name, s.Name)
		require.True(t, bytes.Equal(content, got[s.Offset:][:s.Size]), s.Name)
		require.Equal(t, want.Sections[i].Offset%4096, s.Offset%4096, s.Name)
	}
}

func TestSectionsAreReplacedByLongerAndShorterOnes(t *testing.T) {
	source, err := os.ReadFile(small)
	require.NoError(t, err)
	for _, sizes := range [][2]int{{1 << 20, 0}, {4096, 70000}, {0, 0}, {276944, 5}, {276945, 23000}} {
		contents := map[string][]byte{"prefill_decode": bytes.Repeat([]byte{7}, sizes[0]),
			"embedder": bytes.Repeat([]byte{8}, sizes[1])}
		got, err := replaced(t, small, contents)
		require.NoError(t, err)
		requireSections(t, got, source, contents)
		require.True(t, output.IsSkeleton(got))
	}
}

func TestATaskWithAnotherMemberIsAZip(t *testing.T) {
	source := storedTask(t, member{name: "TF_LITE_PREFILL_DECODE", content: content(t, "prefill_decode")},
		member{name: "TOKENIZER_MODEL", content: []byte("pieces")}, member{name: "METADATA", content: []byte("meta")})
	path := fileOf(t, source).Name()
	for _, size := range []int{1, 5, 100000, 1 << 18} {
		contents := map[string][]byte{"TF_LITE_PREFILL_DECODE": bytes.Repeat([]byte("pos.TFL3"), size)}
		got, err := replaced(t, path, contents)
		require.NoError(t, err)
		requireSections(t, got, source, contents)
		require.True(t, output.IsSkeleton(got))
		z, err := zip.NewReader(bytes.NewReader(got), int64(len(got)))
		require.NoError(t, err)
		require.Equal(t, "a task"+output.SkeletonMark, z.Comment)
		for _, f := range z.File {
			r, err := f.Open()
			require.NoError(t, err)
			_, err = io.ReadAll(r) // compares the checksum
			require.NoError(t, err, f.Name)
		}
	}
}

func TestSectionsThatCannotChangeTheirSizeAreErrors(t *testing.T) {
	described := writeTask(t, member{"a", zip.Store, []byte("content")})
	overlapping := litertlm(withSections(section(2000, 2100, 3), section(2050, 2200, 1)), 1)
	twice := flatbuf.Fields{1: flatbuf.Fields{0: []flatbuf.Fields{section(2000, 2100, 3)}}}
	for name, c := range map[string]struct {
		file    []byte
		section string
		want    error
	}{
		"a member whose size follows it": {described, "a", bundle.ErrFixed},
		"sections that overlap":          {overlapping, "tflitemodel", bundle.ErrFixed},
		"no such section":                {litertlm(twice, 1), "vision", bundle.ErrUnknownSection},
		"no bundle":                      {[]byte("TFL3"), "a", bundle.ErrNotBundle},
	} {
		_, err := replaced(t, fileOf(t, c.file).Name(), map[string][]byte{c.section: make([]byte, 3*math.MaxUint16)})
		require.ErrorIs(t, err, c.want, name)
	}
}

// FuzzReplace replaces a section of any bytes: it is an error, or the bundle has the others as before.
func FuzzReplace(f *testing.F) {
	file, err := os.ReadFile(small)
	require.NoError(f, err)
	f.Add(file[:64<<10], 0)
	f.Add(litertlm(withSections(section(2000, 2100, 3, role("tf_lite_aux")), section(2100, 2101, 1)), 1), 1)
	f.Add(storedTask(f, member{name: "a", content: []byte("TFL3TFL3")}, member{name: "b"}), 0)
	f.Fuzz(func(t *testing.T, file []byte, number int) {
		b, err := read(t, file)
		if err != nil || number < 0 || number >= len(b.Sections) {
			return
		}
		contents := map[string][]byte{b.Sections[number].Name: []byte("other")}
		got, err := replaced(t, fileOf(t, file).Name(), contents)
		if err != nil {
			return
		}
		requireSections(t, got, file, contents)
	})
}
