package cachefile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

var (
	dense = packing.Family{Operator: packing.FullyConnected, Input: 1, Kernel: 1, Output: 1}
	conv  = packing.Family{Operator: packing.Convolution2D, Input: 1, Kernel: 1, Output: 1}
)

// seenBy is the evidence of machines: of each family, what they pack of it.
func seenBy(families map[packing.Family]byte, machines ...byte) (e format.Evidence) {
	for _, m := range machines {
		e.Machines = append(e.Machines, format.Digest{m})
	}
	for _, f := range []packing.Family{dense, conv} {
		if sum, seen := families[f]; seen {
			e.Families = append(e.Families, format.SeenFamily{Family: f, Sum: format.Digest{sum}})
		}
	}
	return format.Evidence{}.Merge(e)
}

// withEvidence writes a file with an entry of each family in the first layout, and one in the other.
func withEvidence(t *testing.T, evidence format.Evidence, families ...packing.Family) string {
	t.Helper()
	m := maker{evidence: evidence.Encode()}
	for i, f := range families {
		m.add(weight{kernel: f.String(), layout: thisLayout, size: 1000 + i})
		m.records[i].Family = f
	}
	m.add(weight{kernel: "elsewhere", layout: otherLayout, size: 1000})
	m.commit(t)
	return write(t, m.bytes())
}

// evidenceIn returns the evidence of a file's first layout.
func evidenceIn(t *testing.T, path string) format.Evidence {
	t.Helper()
	info, err := open(t, path).Info()
	require.NoError(t, err)
	return format.DecodeEvidence(info.Layouts[0].Evidence)
}

// A registry's file depends on the entries alone.
func TestACombinedFileSaysNothingOfWhoPacked(t *testing.T) {
	_, combined := combine(t, withEvidence(t, seenBy(map[packing.Family]byte{dense: 1}, 1), dense))
	_, without := combine(t, withEvidence(t, format.Evidence{}, dense))
	require.True(t, bytes.Equal(combined, without))
	info, err := open(t, write(t, combined)).Info()
	require.NoError(t, err)
	require.Len(t, info.Layouts, 1)
	require.Equal(t, format.Architecture(thisLayout.Description), info.Layouts[0].Description)
	require.Empty(t, info.Layouts[0].Evidence)
}

func TestAnInstalledFileSaysOfItsLayoutsWhatItIsToldToSay(t *testing.T) {
	evidence := seenBy(map[packing.Family]byte{dense: 1}, 1)
	for name, src := range map[string]string{
		"other evidence": withEvidence(t, seenBy(map[packing.Family]byte{dense: 7}, 2), dense),
		"none":           withEvidence(t, format.Evidence{}, dense),
		"the same":       withEvidence(t, evidence, dense),
	} {
		b, err := os.ReadFile(src)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "cache")
		asked := map[format.Digest]cachefile.Layout{}
		require.NoError(t, installAt(path, b, func(info *cachefile.Info) error {
			for i, l := range info.Layouts {
				asked[l.Fingerprint] = l
				info.Layouts[i].Evidence = ""
				if l.Fingerprint == thisLayout.Fingerprint {
					info.Layouts[i].Evidence = evidence.Encode()
				}
			}
			return nil
		}))
		requireSound(t, path)
		require.Equal(t, evidence, evidenceIn(t, path), name)
		require.Equal(t, []packing.Family{dense}, asked[thisLayout.Fingerprint].Families)
		require.Contains(t, asked, otherLayout.Fingerprint)
		old, copied := open(t, src), open(t, path)
		require.Equal(t, entries(t, old), entries(t, copied), name)
		want, err := old.Info()
		require.NoError(t, err)
		got, err := copied.Info()
		require.NoError(t, err)
		require.Equal(t, want.Generation, got.Generation)
		require.Equal(t, want.DeadBytes, got.DeadBytes)
		require.Zero(t, got.UncommittedBytes)
	}
}
