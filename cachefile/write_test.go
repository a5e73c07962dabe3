package cachefile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
)

func TestACopyHasTheChosenEntriesAndNothingElse(t *testing.T) {
	m := maker{gap: 512}
	m.add(weights[0])
	m.commit(t)
	m.add(weights[1:]...)
	m.commit(t)
	f := open(t, write(t, m.bytes()))
	for name, keep := range map[string]func(cachefile.Entry) bool{
		"all":        nil,
		"one layout": func(e cachefile.Entry) bool { return e.Layout == thisLayout.Fingerprint },
		"one name":   func(e cachefile.Entry) bool { return e.Name == "dense" },
		"none":       func(cachefile.Entry) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "copy")
			var done, total int64
			require.NoError(t, copyTo(f, dst, keep, cachefile.WriteOptions{Progress: func(d, n int64) {
				require.Greater(t, d, done)
				done, total = d, n
			}}))
			require.Equal(t, total, done)
			requireSound(t, dst)
			c := open(t, dst)
			want := entries(t, f)
			if keep != nil {
				want = slices.DeleteFunc(want, func(e cachefile.Entry) bool { return !keep(e) })
			}
			got := entries(t, c)
			require.Len(t, got, len(want))
			for i := range got {
				require.Equal(t, content(t, f, want[i]), content(t, c, got[i]))
				got[i].Offset = want[i].Offset
			}
			require.ElementsMatch(t, want, got)
			info, err := c.Info()
			require.NoError(t, err)
			require.Zero(t, info.DeadBytes)
			require.Equal(t, total, info.FileBytes)
			require.EqualValues(t, 1, info.Generation)
			require.NotEqual(t, id, info.ID, "it can go its own way")
			if runtime.GOOS != "windows" {
				stat, err := os.Stat(dst)
				require.NoError(t, err)
				require.EqualValues(t, 0o600, stat.Mode().Perm())
			}
			remaining, err := os.ReadDir(filepath.Dir(dst))
			require.NoError(t, err)
			require.Len(t, remaining, 1, "nothing else is left beside it")
		})
	}
}

func TestACopyHasEqualPayloadsOfSeveralLayoutsOnce(t *testing.T) {
	// Two of one key, packed from different content, stay two: their offsets distinguish them.
	duplicate := weight{kernel: "conv", layout: thisLayout, seed: 1, size: 500}
	var m maker
	for _, w := range []weight{duplicate, duplicate, duplicate, duplicate} {
		m.add(w)
	}
	for i := range m.records {
		m.records[i].Digests.Kernel = format.Digest{byte(i)}
		if i%2 == 1 {
			m.records[i].Layout = otherLayout.Fingerprint
		}
	}
	m.commit(t)
	path := write(t, m.bytes())
	dst := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, copyTo(open(t, path), dst, nil, cachefile.WriteOptions{}))
	requireSound(t, dst)
	got := entries(t, open(t, dst))
	require.Len(t, got, 4)
	places := map[int64][]format.Digest{}
	for _, e := range got {
		places[e.Offset] = append(places[e.Offset], e.Layout)
	}
	require.Len(t, places, 2)
	for _, layouts := range places {
		require.ElementsMatch(t, []format.Digest{thisLayout.Fingerprint, otherLayout.Fingerprint}, layouts)
	}

	b := m.bytes()
	b[entries(t, open(t, path))[1].Offset] ^= 1
	damaged := open(t, write(t, b))
	require.ErrorIs(t, copyTo(damaged, dst, nil, cachefile.WriteOptions{}), cachefile.ErrDamaged,
		"it is not taken for its sound equal")
}

// inLayout keeps the entries of a layout.
func inLayout(l format.Layout) func(cachefile.Entry) bool {
	return func(e cachefile.Entry) bool { return e.Layout == l.Fingerprint }
}

func TestAFileForExecuTorchHasOneLayoutAndOneEntryAName(t *testing.T) {
	f := open(t, write(t, sample(t)))
	dst := filepath.Join(t.TempDir(), "copy")
	require.ErrorIs(t, copyTo(f, dst, nil, cachefile.WriteOptions{Format: cachefile.XPWC2}), cachefile.ErrLayouts)
	require.NoFileExists(t, dst)
	require.ErrorIs(t, copyTo(f, dst, inLayout(thisLayout), cachefile.WriteOptions{Format: cachefile.XPWC2}),
		cachefile.ErrAmbiguous, "tied has two seeds")
	require.NoFileExists(t, dst)
	require.ErrorIs(t, copyTo(f, dst, inLayout(format.Layout{}), cachefile.WriteOptions{Format: cachefile.XPWC2}),
		cachefile.ErrEmpty)
	var remaining []uint32
	require.NoError(t, copyTo(f, dst, inLayout(thisLayout), cachefile.WriteOptions{Format: cachefile.XPWC2,
		LeftOut: func(e cachefile.Entry, err error) error {
			require.ErrorIs(t, err, cachefile.ErrAmbiguous)
			remaining = append(remaining, e.Seed)
			return nil
		}}))
	require.Equal(t, []uint32{3}, remaining, "the other was used later")
	requireSound(t, dst)
	c := open(t, dst)
	info, err := c.Info()
	require.NoError(t, err)
	require.Equal(t, cachefile.XPWC2, info.Format)
	got := entries(t, c)
	require.Len(t, got, 3)
	for i, w := range []int{0, 1, 3} {
		require.Equal(t, weights[w].kernel+weights[w].bias, got[i].Name)
		require.Equal(t, payloadOf(w, weights[w]), content(t, c, got[i]))
		require.Zero(t, got[i].Offset%64)
		require.Equal(t, []uint32{1, 2, 4}[i], got[i].Seed)
	}
	err = copyTo(f, dst, inLayout(otherLayout), cachefile.WriteOptions{Format: cachefile.XPWC2})
	require.ErrorIs(t, err, cachefile.ErrAmbiguous)
	require.ErrorContains(t, err, `"scaled"`, "a variant")
}

func TestANoteIsReadFromAFileForExecuTorch(t *testing.T) {
	var m maker
	m.add(weight{kernel: "a", layout: thisLayout, seed: 1, size: 10})
	m.commit(t)
	f := open(t, write(t, m.bytes()))
	dst := filepath.Join(t.TempDir(), "copy")
	for _, note := range []string{"", "for a model"} {
		require.NoError(t, copyTo(f, dst, nil, cachefile.WriteOptions{Format: cachefile.XPWC2, Note: note}))
		requireSound(t, dst)
		c := open(t, dst)
		info, err := c.Info()
		require.NoError(t, err)
		require.Equal(t, note, info.Note)
		require.Zero(t, info.DeadBytes)
		require.Len(t, entries(t, c), 1)
	}
	long := cachefile.WriteOptions{Note: strings.Repeat("n", 1<<16+1)}
	require.ErrorContains(t, copyTo(f, dst, nil, long), "65537 bytes")
}

// ExecuTorch would serve either for the other.
func TestNamesThatMeetAtTheirSeamsAreNotWrittenForExecuTorch(t *testing.T) {
	var m maker
	m.add(weight{kernel: "a", bias: "bc", layout: thisLayout, seed: 1, size: 10},
		weight{kernel: "ab", bias: "c", layout: thisLayout, seed: 1, size: 20},
		weight{kernel: "x", layout: thisLayout, seed: 1, size: 10})
	m.commit(t)
	f := open(t, write(t, m.bytes()))
	dst := filepath.Join(t.TempDir(), "copy")
	remaining := 0
	leaveOut := func(cachefile.Entry, error) error { remaining++; return nil }
	require.NoError(t, copyTo(f, dst, nil, cachefile.WriteOptions{Format: cachefile.XPWC2, LeftOut: leaveOut}))
	require.Equal(t, 2, remaining)
	require.Len(t, entries(t, open(t, dst)), 1)
}

func TestAFileForExecuTorchDoesNotDependOnTheOrderOfPacking(t *testing.T) {
	b := weight{kernel: "b", layout: thisLayout, seed: 1, size: 10}
	// Packed for two operators into the same bytes.
	duplicate := weight{kernel: "b", layout: thisLayout, seed: 1, shared: true}
	var m maker
	m.add(b, duplicate, weight{kernel: "a", layout: thisLayout, seed: 2, size: 20})
	m.commit(t)
	dst := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, copyTo(open(t, write(t, m.bytes())), dst, nil, cachefile.WriteOptions{Format: cachefile.XPWC2}))
	var names []string
	for _, e := range entries(t, open(t, dst)) { // in the order of the payloads
		names = append(names, e.Name)
	}
	require.Equal(t, []string{"a", "b"}, names)
}

func TestExecuTorchsFilesAreCopied(t *testing.T) {
	v2 := open(t, write(t, executorchFile("a", "b")))
	dst := filepath.Join(t.TempDir(), "copy")
	require.ErrorIs(t, copyTo(v2, dst, nil, cachefile.WriteOptions{Format: cachefile.Native}), cachefile.ErrForeign)
	require.ErrorContains(t, copyTo(v2, dst, nil, cachefile.WriteOptions{Format: "xpwc1"}),
		`"xpwc1" is no format that is written`)
	require.NoFileExists(t, dst)
	require.NoError(t, copyTo(v2, dst, func(e cachefile.Entry) bool { return e.Name == "b" }, cachefile.WriteOptions{}))
	requireSound(t, dst)
	c := open(t, dst)
	got := entries(t, c)
	require.Len(t, got, 1)
	require.EqualValues(t, 2, got[0].Seed)
	require.Equal(t, payloadOf(1, weight{kernel: "b", size: 2000}), content(t, c, got[0]))
}

func TestADamagedPayloadIsNotCopied(t *testing.T) {
	b := sample(t)
	f := open(t, write(t, b))
	bad := entries(t, f)[1]
	b[bad.Offset+5] ^= 1
	path := write(t, b)
	f = open(t, path)
	dst := filepath.Join(t.TempDir(), "copy")
	err := copyTo(f, dst, nil, cachefile.WriteOptions{})
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	var p *cachefile.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, cachefile.Problem{Path: path, Offset: bad.Offset, Name: "dense", Message: p.Message}, *p)
	remaining, err := os.ReadDir(filepath.Dir(dst))
	require.NoError(t, err)
	require.Empty(t, remaining)

	var out []cachefile.Entry
	require.NoError(t, copyTo(f, dst, nil, cachefile.WriteOptions{LeftOut: func(e cachefile.Entry, err error) error {
		require.ErrorIs(t, err, cachefile.ErrDamaged)
		out = append(out, e)
		return nil
	}}))
	require.Equal(t, []cachefile.Entry{bad}, out)
	requireSound(t, dst)
	require.Len(t, entries(t, open(t, dst)), len(weights)-1)
}

func TestAnUnknownFormatIsNotWritten(t *testing.T) {
	err := open(t, write(t, sample(t))).Write(nil, nil, cachefile.WriteOptions{Format: "tar"})
	require.ErrorContains(t, err, `"tar"`)
}
