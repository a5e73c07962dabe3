package cachefile_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
)

// combine makes an image of the first layout.
func combine(t *testing.T, paths ...string) (*cachefile.Image, []byte) {
	t.Helper()
	var files []*cachefile.File
	for _, path := range paths {
		files = append(files, open(t, path))
	}
	im, err := cachefile.Combine(files, thisLayout.Fingerprint)
	require.NoError(t, err)
	b, err := io.ReadAll(im.Reader())
	require.NoError(t, err)
	require.Len(t, b, int(im.FileBytes))
	return im, b
}

func TestTheSameEntriesMakeTheSameImage(t *testing.T) {
	path := write(t, sample(t))
	f := open(t, path)
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, copyTo(f, copied, nil, cachefile.WriteOptions{}))
	var gaps maker
	gaps.gap = 4 * format.Alignment
	gaps.add(weights...)
	for i := range gaps.records {
		r := &gaps.records[i]
		r.Source = format.Digest{1}
		r.Stamps = format.Hashes{Kernel: format.Digest{2, byte(i)}, Bias: format.Digest{3, byte(i)}}
		r.PackedAt, r.UsedAt = 77, int64(i)
	}
	gaps.commit(t)
	gaps.commit(t)
	existing := write(t, gaps.bytes())

	im, want := combine(t, path)
	ofHere := slices.DeleteFunc(entries(t, f), func(e cachefile.Entry) bool {
		return e.Layout != thisLayout.Fingerprint
	})
	require.Equal(t, len(ofHere), im.Layout.Entries)
	for name, paths := range map[string][]string{
		"again": {path}, "a copy": {copied}, "packed elsewhere": {existing}, "twice": {path, existing},
		"in halves": halves(t, path),
	} {
		_, got := combine(t, paths...)
		require.True(t, bytes.Equal(want, got), name)
	}
	fewer := filepath.Join(t.TempDir(), "fewer")
	butOne := func(e cachefile.Entry) bool { return e != ofHere[0] }
	require.NoError(t, copyTo(f, fewer, butOne, cachefile.WriteOptions{}))
	_, less := combine(t, fewer)
	require.NotEqual(t, want[16:32], less[16:32], "other entries make another identity")
}

// halves writes the file's entries into two, the last first.
func halves(t *testing.T, path string) (paths []string) {
	t.Helper()
	f := open(t, path)
	listed := entries(t, f)
	for i := range 2 {
		half := filepath.Join(t.TempDir(), "half")
		keep := func(e cachefile.Entry) bool { return slices.Index(listed, e) >= len(listed)/2 == (i == 0) }
		require.NoError(t, copyTo(f, half, keep, cachefile.WriteOptions{}))
		paths = append(paths, half)
	}
	return paths
}

func TestAnImageHasTheEntriesAndNothingOfWhereTheyWerePacked(t *testing.T) {
	path := write(t, sample(t))
	im, b := combine(t, path)
	require.Equal(t, thisLayout.Description, im.Layout.Description)
	image := write(t, b)
	requireSound(t, image)
	f, source := open(t, image), open(t, path)
	payloads := map[string][]byte{}
	for _, e := range entries(t, source) {
		if e.Layout == thisLayout.Fingerprint {
			payloads[e.Name+string(rune(e.Seed))] = content(t, source, e)
		}
	}
	got := entries(t, f)
	require.Len(t, got, len(payloads))
	require.Len(t, got, im.Layout.Entries)
	for _, e := range got {
		require.Equal(t, payloads[e.Name+string(rune(e.Seed))], content(t, f, e))
		require.Zero(t, e.Source)
		require.Zero(t, e.KernelStamp)
		require.Zero(t, e.BiasStamp)
		require.Zero(t, e.PackedAt.Unix())
		require.Zero(t, e.UsedAt.Unix())
		require.NotZero(t, e.KernelDigest)
	}
	info, err := f.Info()
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Generation)
	require.Zero(t, info.DeadBytes)
	require.Equal(t, im.Layout.PayloadBytes, info.PayloadBytes)
}

func TestAnImageSaysWhichModelsItsEntriesAreOf(t *testing.T) {
	var m maker
	m.add(weights...)
	for i := range m.records {
		m.records[i].Source, m.records[i].SourceName = format.Digest{byte(1 + i/3)}, "pose.tflite"
	}
	m.records[3].SourceName = "hand.tflite"
	m.commit(t)
	path := filepath.Join(t.TempDir(), "models")
	require.NoError(t, copyTo(open(t, write(t, m.bytes())), path, inLayout(thisLayout), cachefile.WriteOptions{}))
	plain := write(t, sample(t)) // has no information about models
	_, b := combine(t, path)
	_, combined := combine(t, plain, path)
	require.True(t, bytes.Equal(b, combined), "the order of files does not matter")
	info, err := open(t, path).Info()
	require.NoError(t, err)
	require.Len(t, info.Models, 2)
	require.Equal(t, "pose.tflite", info.Models[1].Name)
	require.Equal(t, info.PayloadBytes, info.Models[0].PayloadBytes+info.Models[1].PayloadBytes)

	image, err := open(t, write(t, b)).Info()
	require.NoError(t, err)
	for i := range info.Models {
		info.Models[i].Source = cachefile.Digest{} // of a path here
	}
	require.Equal(t, info.Models, image.Models)
}

func TestWhatOneFileKnowsOfAnEntryHoldsForAll(t *testing.T) {
	var plain, tied maker
	plain.add(weight{kernel: "k", layout: thisLayout, size: 100})
	plain.commit(t)
	tied.add(weight{kernel: "k", layout: thisLayout, size: 100, flags: format.Tied})
	tied.commit(t)
	im, b := combine(t, write(t, plain.bytes()), write(t, tied.bytes()))
	require.Equal(t, 1, im.Layout.Entries)
	require.True(t, entries(t, open(t, write(t, b)))[0].Tied)
}

// Hosts that do not give scales packed one weight with different ones, each into a file of its own.
func TestPayloadsThatNothingTellsApartAreVariantsOfEachOther(t *testing.T) {
	var first, another maker
	first.add(weight{kernel: "k", layout: thisLayout, seed: 7, size: 100})
	first.commit(t)
	another.add(weight{kernel: "k", layout: thisLayout, seed: 7, size: 200})
	another.add(weight{kernel: "k", layout: thisLayout, seed: 8, size: 300})
	another.records[1].Digests = another.records[0].Digests
	another.commit(t)
	_, b := combine(t, write(t, first.bytes()), write(t, another.bytes()))
	for _, e := range entries(t, open(t, write(t, b))) {
		require.Equal(t, e.Seed == 7, e.Variant, "seed %d, %d bytes", e.Seed, e.Size)
	}
}

func TestADamagedPayloadIsNotCombined(t *testing.T) {
	b := sample(t)
	b[format.HeaderSize+10] ^= 1
	f := open(t, write(t, b))
	_, err := cachefile.Combine([]*cachefile.File{f}, thisLayout.Fingerprint)
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	_, err = cachefile.Combine([]*cachefile.File{f}, format.Digest{0xc})
	require.ErrorIs(t, err, cachefile.ErrEmpty)
	_, err = cachefile.Combine([]*cachefile.File{open(t, write(t, executorchFile("k")))}, thisLayout.Fingerprint)
	require.ErrorIs(t, err, cachefile.ErrForeign)
}

func install(path string, b []byte, accept func(*cachefile.Info) error) error {
	return installAt(path, b, accept)
}

func TestAnInstalledFileIsSoundAndItsOwn(t *testing.T) {
	b := sample(t)
	path := filepath.Join(t.TempDir(), "cache")
	seen := map[[16]byte]bool{id: true}
	for i := range 2 {
		var reported cachefile.Info
		require.NoError(t, install(path, b, func(info *cachefile.Info) error { reported = *info; return nil }))
		require.Len(t, reported.Layouts, 2)
		requireSound(t, path)
		info, err := open(t, path).Info()
		require.NoError(t, err)
		require.False(t, seen[info.ID], "copy %d", i)
		seen[info.ID] = true
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b[format.HeaderSize:], got[format.HeaderSize:]))
		mode, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), mode.Mode().Perm())
	}
}

func TestWhatCannotBeInstalledLeavesWhatThereWas(t *testing.T) {
	good := sample(t)
	damaged := bytes.Clone(good)
	damaged[format.HeaderSize+10] ^= 1
	errRefused := errors.New("no")
	for name, try := range map[string]struct {
		existing, b []byte
		accept      func(*cachefile.Info) error
		err         error
	}{
		"a damaged file":      {good, damaged, nil, cachefile.ErrDamaged},
		"one that is cut off": {good, good[:len(good)-1], nil, cachefile.ErrDamaged},
		"one with more":       {good, append(bytes.Clone(good), 0), nil, cachefile.ErrDamaged},
		"something else":      {good, []byte("something else"), nil, cachefile.ErrDamaged},
		"ExecuTorch's":        {good, executorchFile("k"), nil, cachefile.ErrForeign},
		"not wanted":          {good, good, func(*cachefile.Info) error { return errRefused }, errRefused},
	} {
		path := write(t, try.existing)
		require.ErrorIs(t, install(path, try.b, try.accept), try.err, name)
		existing, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(try.existing, existing), name)
		siblings, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, siblings, 1, name)
	}
}
