package format_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/packing"
)

func family(n int) packing.Family {
	return packing.Family{Operator: packing.Operator(n >> 8), Input: packing.Datatype(n)}
}

// seen says what a machine packs: of each family, by its number, a sum.
func seen(machine byte, complete bool, sums map[int]byte) format.Machine {
	m := format.Machine{Digest: different(machine), Complete: complete}
	for f, sum := range sums {
		m.Families = append(m.Families, format.SeenFamily{Family: family(f), Sum: different(sum)})
	}
	slices.SortFunc(m.Families, func(a, b format.SeenFamily) int { return int(a.Family.Input) - int(b.Family.Input) })
	return m
}

func TestEvidenceIsReadAsItWasWritten(t *testing.T) {
	written := format.Evidence{seen(2, false, map[int]byte{9: 8, 4: 3, 1: 1}), seen(1, true, map[int]byte{4: 3})}
	encoded := written.Encode()
	read := format.DecodeEvidence(encoded)
	require.Equal(t, format.Evidence{written[1], written[0]}, read)
	require.Equal(t, encoded, read.Encode())
	require.Empty(t, format.Evidence{{Digest: different(1), Complete: true}}.Encode(), "nothing was seen")
	require.Empty(t, format.DecodeEvidence(""))
}

func TestWhatIsNotWrittenSoIsNoEvidence(t *testing.T) {
	one, two := seen(1, true, map[int]byte{1: 1, 2: 2}), seen(2, true, map[int]byte{1: 1})
	first, both := format.Evidence{one}.Encode(), format.Evidence{one, two}.Encode()
	second := both[len(first):]
	row := len(first) - len(second)
	for name, b := range map[string]string{
		"cut off":                         both[:len(both)-1],
		"cut off in a head":               both[:len(first)+17],
		"more":                            both + "\x00",
		"a machine twice":                 first + first,
		"machines in another order":       second + first,
		"a family twice":                  first[:len(first)-row] + first[len(first)-2*row:len(first)-row],
		"families in another order":       first[:18] + first[18+row:] + first[18:18+row],
		"neither complete nor not":        first[:16] + "\x02" + first[17:],
		"no families":                     first[:17] + "\x00",
		"more families than there may":    first[:17] + "\x41" + strings.Repeat("f", 65*row),
		"as one machine was written once": first[:17] + first[18:],
		"zeros":                           strings.Repeat("\x00", 1000),
	} {
		require.Empty(t, format.DecodeEvidence(b), name)
	}
}

// A file that goes from machine to machine does not grow without end.
func TestEvidenceHasABound(t *testing.T) {
	var many format.Evidence
	sums := map[int]byte{}
	for i := range 100 {
		sums[i] = 1
	}
	for i := range 40 {
		many = append(many, seen(byte(40-i), true, sums))
	}
	read := format.DecodeEvidence(many.Encode())
	require.Len(t, read, format.MostMachines)
	for _, m := range read {
		require.Len(t, m.Families, format.MostOfAMachine)
		require.False(t, m.Complete)
	}
	_, known := read.Of(many[0].Digest)
	require.True(t, known, "the first are kept")
	require.Less(t, len(many.Encode()), 32<<10)
}

func TestOthersAddMachinesAndNothingElseToWhatIsKnown(t *testing.T) {
	own := seen(1, true, map[int]byte{1: 1, 2: 2})
	for name, c := range map[string]struct{ other, want format.Machine }{
		"the same":           {seen(2, true, map[int]byte{1: 1, 2: 2}), seen(2, true, map[int]byte{1: 1, 2: 2})},
		"less":               {seen(2, true, map[int]byte{1: 1}), seen(2, false, map[int]byte{1: 1})},
		"not complete there": {seen(2, false, map[int]byte{1: 1, 2: 2}), seen(2, false, map[int]byte{1: 1, 2: 2})},
		"another family":     {seen(2, true, map[int]byte{1: 1, 3: 3}), seen(2, false, map[int]byte{1: 1})},
		"another sum":        {seen(2, true, map[int]byte{1: 1, 2: 3}), seen(2, false, map[int]byte{1: 1})},
		"a zero sum":         {seen(2, true, map[int]byte{1: 1, 3: 0}), seen(2, false, map[int]byte{1: 1})},
	} {
		require.Equal(t, format.Evidence{own, c.want}, format.Evidence{own}.With(format.Evidence{c.other}), name)
	}
	for name, other := range map[string]format.Machine{
		"nothing that agrees":    seen(2, true, map[int]byte{1: 9, 7: 7}),
		"the machine is known":   seen(1, true, map[int]byte{1: 1, 2: 9, 3: 3}),
		"nothing at all is said": {Digest: different(2), Complete: true},
	} {
		require.Equal(t, format.Evidence{own}, format.Evidence{own}.With(format.Evidence{other}), name)
	}
	require.Empty(t, format.Evidence(nil).With(format.Evidence{own}), "nobody here has seen anything")
}

func TestOfSeveralFilesTheEvidenceIsKeptThatAllOfThemBearOut(t *testing.T) {
	says := func(families []int, machines ...format.Machine) format.Statement {
		s := format.Statement{Evidence: machines}
		for _, f := range families {
			s.Families = append(s.Families, family(f))
		}
		return s
	}
	one, two := seen(1, true, map[int]byte{1: 1, 2: 2}), seen(2, true, map[int]byte{1: 1, 2: 2})
	for name, c := range map[string]struct {
		files []format.Statement
		want  format.Evidence
	}{
		"one file": {[]format.Statement{says([]int{1, 2}, one)}, format.Evidence{one}},
		"of two machines": {
			[]format.Statement{says([]int{1, 2}, one), says([]int{2}, two)}, format.Evidence{one, two}},
		"families it lacks now": {
			[]format.Statement{says([]int{2}, one)}, format.Evidence{seen(1, true, map[int]byte{2: 2})}},
		"a family nobody showed": {
			[]format.Statement{says([]int{1, 2, 3}, one)}, format.Evidence{seen(1, false, map[int]byte{1: 1, 2: 2})}},
		"families of their own": {
			[]format.Statement{
				says([]int{1}, seen(1, true, map[int]byte{1: 1})), says([]int{2}, seen(2, true, map[int]byte{2: 2})),
			},
			format.Evidence{seen(1, false, map[int]byte{1: 1}), seen(2, false, map[int]byte{2: 2})},
		},
		"a file without evidence": {
			[]format.Statement{says([]int{1}), says([]int{1, 2}, two)},
			format.Evidence{seen(2, false, map[int]byte{2: 2})},
		},
		"a file that contradicts another": {
			[]format.Statement{says([]int{1, 2}, one), says([]int{2}, seen(2, true, map[int]byte{1: 7, 2: 2}))},
			format.Evidence{seen(1, false, map[int]byte{2: 2}), seen(2, false, map[int]byte{2: 2})},
		},
		"a file that contradicts itself": {
			[]format.Statement{says([]int{1}, one, seen(2, true, map[int]byte{1: 7}))},
			nil,
		},
	} {
		encoded := format.Merge(c.files).Encode()
		require.Equal(t, c.want, format.DecodeEvidence(encoded), name)
		slices.Reverse(c.files)
		require.Equal(t, encoded, format.Merge(c.files).Encode(), name)
	}
}

func TestFamiliesOfEntriesAreListedOnceByLayout(t *testing.T) {
	var f format.Families
	f.Add(different(1), family(1))
	f.Add(different(1), family(1))
	f.Add(different(2), family(1))
	f.Add(different(1), family(0))
	f.Add(different(1), family(1))
	require.Equal(t, []packing.Family{family(1), family(0)}, f.Of(different(1)))
	require.Equal(t, []packing.Family{family(1)}, f.Of(different(2)))
	require.Empty(t, f.Of(different(3)))
}
