package cachefile_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
)

func TestDiffTellsWhatTwoFilesDoNotHaveInCommon(t *testing.T) {
	build := func(change func(ws []weight) []weight) *cachefile.File {
		var m maker
		m.add(change(slices.Clone(weights))...)
		m.commit(t)
		return open(t, write(t, m.bytes()))
	}
	unchanged := func(ws []weight) []weight { return ws }
	type reported struct {
		change cachefile.Change
		name   string
	}
	for name, c := range map[string]struct {
		change func(ws []weight) []weight
		common int
		want   []reported
	}{
		"nothing": {unchanged, 6, nil},
		"seed": {func(ws []weight) []weight { ws[1].seed = 9; return ws }, 5,
			[]reported{{cachefile.OtherSeed, "dense"}}},
		"bytes": {func(ws []weight) []weight { ws[0].size++; return ws }, 5,
			[]reported{{cachefile.OtherBytes, "convconv.bias"}}},
		"an entry": {func(ws []weight) []weight { return ws[:5] }, 5, []reported{{cachefile.OnlyInA, "scaled"}}},
		"one more": {func(ws []weight) []weight {
			return append(ws, weight{kernel: "new", layout: thisLayout, size: 5})
		}, 6,
			[]reported{{cachefile.OnlyInB, "new"}}},
		"its layout": {func(ws []weight) []weight { ws[0].layout = otherLayout; return ws }, 5,
			[]reported{{cachefile.OtherLayout, "convconv.bias"}}},
		"two": {func(ws []weight) []weight { ws[0].kernel, ws[5].seed = "conf", 8; return ws }, 4, []reported{
			{cachefile.OnlyInB, "confconv.bias"}, {cachefile.OnlyInA, "convconv.bias"},
			{cachefile.OtherSeed, "scaled"}}},
	} {
		t.Run(name, func(t *testing.T) {
			differences, common, err := cachefile.Diff(build(unchanged), build(c.change))
			require.NoError(t, err)
			require.Equal(t, c.common, common)
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
	ofHere := func(e cachefile.Entry) bool { return e.Layout == thisLayout.Fingerprint && e.Seed != 3 }
	dir := t.TempDir()
	first, v2 := filepath.Join(dir, "one"), filepath.Join(dir, "v2")
	require.NoError(t, copyTo(native, first, ofHere, cachefile.WriteOptions{}))
	require.NoError(t, copyTo(native, v2, ofHere, cachefile.WriteOptions{Format: cachefile.XPWC2}))
	for _, pair := range [][2]string{{first, v2}, {v2, v2}, {v2, first}} {
		differences, common, err := cachefile.Diff(open(t, pair[0]), open(t, pair[1]))
		require.NoError(t, err)
		require.Empty(t, differences)
		require.Equal(t, 3, common)
	}
	a, b := open(t, write(t, executorchFile("a", "b"))), open(t, write(t, executorchFile("b", "a")))
	differences, common, err := cachefile.Diff(a, b)
	require.NoError(t, err)
	require.Zero(t, common)
	require.Len(t, differences, 2)
	require.Equal(t, cachefile.OtherSeed, differences[0].Change)
}
