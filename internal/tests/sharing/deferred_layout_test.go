//go:build cgo

package sharing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A new file's first start need not know the layout of this machine. What it packed has that layout as soon as another
// session, or the commit, asks for it.
func TestWhatWasPackedBeforeTheLayoutIsKnownIsFoundAfterwards(t *testing.T) {
	path := harness.Path(t)
	m, more := harness.Tensors(2, 1000), harness.Tensors(3, 1000)
	packed := harness.PackedFrom(more["tensor 2"])
	c := harness.Open(t, path, nil)
	harness.ForgetLayout()
	slow := harness.NewSession(t, c, more)
	space, err := harness.BeginPacking(slow, "tensor 2", len(packed))
	require.NoError(t, err)
	first := harness.PackTensors(t, c, m)
	harness.HoldCommits(c)
	second := harness.PackTensors(t, c, m)
	require.False(t, harness.LayoutAnswered(), "it takes as long as a tenth of a small model's first start")
	require.EqualValues(t, 2, c.Stats().Packed.Entries)

	layout, err := xpwc.CurrentLayout()
	require.NoError(t, err)
	third := harness.PackTensors(t, c, m)
	copy(space, packed)
	harness.EndPacking(slow, "tensor 2", space)
	require.NoError(t, slow.Finalize())
	harness.PackTensors(t, c, more).MustClose(t)
	require.EqualValues(t, 3, c.Stats().Packed.Entries, "a session that knows the layout finds them")
	require.NoError(t, c.Save())
	for _, o := range []*harness.Packed{first, second, third} {
		o.MustClose(t)
	}
	_, index := harness.ReadIndex(t, path)
	require.Equal(t, 3, index.Len())
	for i := range index.Len() {
		require.Equal(t, layout.Fingerprint, harness.Record(t, index, i).Layout)
	}
}

// Another process packs a model at the same time, on the same machine.
func TestNoOtherLayoutIsReportedAsTheReasonOfAFirstStart(t *testing.T) {
	path, m := harness.Path(t), harness.Tensors(2, 1000)
	theirs, ours := harness.OpenProcess(t, path), harness.OpenProcess(t, path)
	harness.ForgetLayout()
	writing := harness.PackTensors(t, theirs, harness.Tensors(1, 500))
	s := harness.NewSession(t, ours, m)
	packed := harness.PackUnfinalized(t, s, m)
	require.False(t, harness.LayoutAnswered())
	saved := harness.PackTensors(t, theirs, m)
	require.NoError(t, theirs.Save())
	harness.PackTensors(t, ours, m).MustClose(t)
	require.NoError(t, s.Finalize())
	require.NotContains(t, s.Explain().Reasons, xpwc.ReasonLayout)
	require.NotContains(t, s.Explain().Reasons, xpwc.ReasonXNNPACK)
	for _, o := range []*harness.Packed{writing, packed, saved} {
		o.MustClose(t)
	}
}
