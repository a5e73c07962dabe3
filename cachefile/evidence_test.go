package cachefile_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/packing"
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
	return format.Evidence{}.And(e)
}

// withEvidence writes a file with an entry of each family in the first layout, and one in the other.
func withEvidence(t *testing.T, evidence format.Evidence, families ...packing.Family) string {
	t.Helper()
	m := maker{evidence: evidence.Encode()}
	for i, f := range families {
		m.add(weight{kernel: f.String(), layout: here, size: 1000 + i})
		m.records[i].Family = f
	}
	m.add(weight{kernel: "elsewhere", layout: other, size: 1000})
	m.commit(t)
	return write(t, m.bytes())
}

// evidenceIn returns what a file says of its first layout.
func evidenceIn(t *testing.T, path string) format.Evidence {
	t.Helper()
	info, err := open(t, path).Info()
	require.NoError(t, err)
	return format.DecodeEvidence(info.Layouts[0].Evidence)
}

func TestACombinedFileSaysOfItsEntriesWhatTheFilesSayTogether(t *testing.T) {
	both := map[packing.Family]byte{dense: 1, conv: 2}
	one := withEvidence(t, seenBy(both, 1), dense, conv)
	part := withEvidence(t, seenBy(map[packing.Family]byte{dense: 1}, 2), dense)
	silent := withEvidence(t, format.Evidence{}, conv)
	for name, c := range map[string]struct {
		paths []string
		want  format.Evidence
	}{
		"one file":                 {[]string{one}, seenBy(both, 1)},
		"files of two machines":    {[]string{one, part}, seenBy(both, 1, 2)},
		"a file that says nothing": {[]string{one, silent}, seenBy(both, 1)},
	} {
		im, b := combine(t, nil, c.paths...)
		made := write(t, b)
		requireSound(t, made)
		require.Equal(t, c.want, evidenceIn(t, made), name)
		require.Equal(t, c.want.Encode(), im.Layouts[0].Evidence, name)
		require.Empty(t, im.Layouts[1].Evidence, name)
		slices.Reverse(c.paths)
		_, again := combine(t, nil, c.paths...)
		require.True(t, bytes.Equal(b, again), "%s: in whatever order", name)
	}
	_, b := combine(t, func(e cachefile.Entry) bool { return e.Family != conv }, one)
	require.Equal(t, seenBy(map[packing.Family]byte{dense: 1}, 1), evidenceIn(t, write(t, b)), "what is left of it")
}

// A registry's file depends on the entries alone.
func TestACombinedFileSaysWhatItIsToldToSay(t *testing.T) {
	with := withEvidence(t, seenBy(map[packing.Family]byte{dense: 1}, 1), dense)
	without := withEvidence(t, format.Evidence{}, dense)
	var made [][]byte
	for _, path := range []string{with, without} {
		var asked []cachefile.Layout
		describe := func(l cachefile.Layout) cachefile.Description {
			asked = append(asked, l)
			return cachefile.Description{Text: "amd64"}
		}
		im, err := cachefile.Combine([]*cachefile.File{open(t, path)}, nil, describe)
		require.NoError(t, err)
		require.Len(t, asked, 2)
		require.Equal(t, []packing.Family{dense}, asked[0].Families)
		require.Equal(t, evidenceIn(t, path).Encode(), asked[0].Evidence)
		b, err := io.ReadAll(im.Reader())
		require.NoError(t, err)
		made = append(made, b)
	}
	require.True(t, bytes.Equal(made[0], made[1]))
}

func TestAnInstalledFileSaysOfItsLayoutsWhatItIsToldToSay(t *testing.T) {
	said := seenBy(map[packing.Family]byte{dense: 1}, 1)
	for name, from := range map[string]string{
		"other evidence": withEvidence(t, seenBy(map[packing.Family]byte{dense: 7}, 2), dense),
		"none":           withEvidence(t, format.Evidence{}, dense),
		"the same":       withEvidence(t, said, dense),
	} {
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "cache")
		asked := map[format.Digest]cachefile.Layout{}
		require.NoError(t, installAt(path, b, nil,
			func(l cachefile.Layout) string {
				asked[l.Fingerprint] = l
				if l.Fingerprint == here.Fingerprint {
					return said.Encode()
				}
				return ""
			}))
		requireSound(t, path)
		require.Equal(t, said, evidenceIn(t, path), name)
		require.Equal(t, []packing.Family{dense}, asked[here.Fingerprint].Families)
		require.Contains(t, asked, other.Fingerprint)
		was, is := open(t, from), open(t, path)
		require.Equal(t, entries(t, was), entries(t, is), name)
		before, err := was.Info()
		require.NoError(t, err)
		after, err := is.Info()
		require.NoError(t, err)
		require.Equal(t, before.Generation, after.Generation)
		require.Equal(t, before.DeadBytes, after.DeadBytes)
		require.Zero(t, after.UncommittedBytes)
	}
}
