package cachefile_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
)

func TestDiffTellsWhatTwoFilesDoNotHaveInCommon(t *testing.T) {
	made := func(change func(ws []weight) []weight) *cachefile.File {
		var m maker
		m.add(change(slices.Clone(weights))...)
		m.commit(t)
		return open(t, write(t, m.bytes()))
	}
	same := func(ws []weight) []weight { return ws }
	type reported struct {
		change cachefile.Change
		name   string
	}
	for name, c := range map[string]struct {
		change func(ws []weight) []weight
		equal  int
		want   []reported
	}{
		"nothing": {same, 6, nil},
		"seed": {func(ws []weight) []weight { ws[1].seed = 9; return ws }, 5,
			[]reported{{cachefile.OtherSeed, "dense"}}},
		"bytes": {func(ws []weight) []weight { ws[0].size++; return ws }, 5,
			[]reported{{cachefile.OtherBytes, "convconv.bias"}}},
		"an entry": {func(ws []weight) []weight { return ws[:5] }, 5, []reported{{cachefile.OnlyInA, "scaled"}}},
		"one more": {func(ws []weight) []weight { return append(ws, weight{kernel: "new", layout: here, size: 5}) }, 6,
			[]reported{{cachefile.OnlyInB, "new"}}},
		"its layout": {func(ws []weight) []weight { ws[0].layout = other; return ws }, 5,
			[]reported{{cachefile.OtherLayout, "convconv.bias"}}},
		"two": {func(ws []weight) []weight { ws[0].kernel, ws[5].seed = "conf", 8; return ws }, 4, []reported{
			{cachefile.OnlyInB, "confconv.bias"}, {cachefile.OnlyInA, "convconv.bias"},
			{cachefile.OtherSeed, "scaled"}}},
	} {
		t.Run(name, func(t *testing.T) {
			differences, equal, err := cachefile.Diff(made(same), made(c.change))
			require.NoError(t, err)
			require.Equal(t, c.equal, equal)
			var got []reported
			for _, d := range differences {
				got = append(got, reported{d.Change, d.Name})
				require.Equal(t, d.Change == cachefile.OnlyInB, d.A == nil)
				require.Equal(t, d.Change == cachefile.OnlyInA, d.B == nil)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestDiffComparesWhatExecuTorchsFilesHave(t *testing.T) {
	native := open(t, write(t, sample(t)))
	ofHere := func(e cachefile.Entry) bool { return e.Layout == here.Fingerprint && e.Seed != 3 }
	dir := t.TempDir()
	one, v2 := filepath.Join(dir, "one"), filepath.Join(dir, "v2")
	require.NoError(t, copyTo(native, one, ofHere, cachefile.WriteOptions{}))
	require.NoError(t, copyTo(native, v2, ofHere, cachefile.WriteOptions{Format: cachefile.XPWC2}))
	for _, pair := range [][2]string{{one, v2}, {v2, v2}, {v2, one}} {
		differences, equal, err := cachefile.Diff(open(t, pair[0]), open(t, pair[1]))
		require.NoError(t, err)
		require.Empty(t, differences)
		require.Equal(t, 3, equal)
	}
	a, b := open(t, write(t, executorchFile("a", "b"))), open(t, write(t, executorchFile("b", "a")))
	differences, equal, err := cachefile.Diff(a, b)
	require.NoError(t, err)
	require.Zero(t, equal)
	require.Len(t, differences, 2)
	require.Equal(t, cachefile.OtherSeed, differences[0].Change)
}
