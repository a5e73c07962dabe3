package format_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

func family(n int) packing.Family {
	return packing.Family{Operator: packing.Operator(n >> 8), Input: packing.Datatype(n)}
}

// evidenceOf returns the evidence of machines whose families, by number, have these checksums.
func evidenceOf(sums map[int]byte, machines ...byte) (e format.Evidence) {
	for _, m := range machines {
		e.Machines = append(e.Machines, different(m))
	}
	for f, sum := range sums {
		e.Families = append(e.Families, format.SeenFamily{Family: family(f), Sum: different(sum)})
	}
	slices.SortFunc(e.Families, func(a, b format.SeenFamily) int { return int(a.Family.Input) - int(b.Family.Input) })
	return e
}

func TestEvidenceIsReadAsItWasWritten(t *testing.T) {
	written := evidenceOf(map[int]byte{9: 8, 4: 3, 1: 1}, 1, 2)
	encoded := written.Encode()
	require.Equal(t, written, format.DecodeEvidence(encoded))
	disordered := evidenceOf(map[int]byte{9: 8, 4: 3, 1: 1}, 2, 1, 2)
	slices.Reverse(disordered.Families)
	require.Equal(t, encoded, disordered.Encode())
	require.Empty(t, evidenceOf(nil, 1).Encode(), "nothing was seen")
	require.Empty(t, evidenceOf(map[int]byte{1: 1}).Encode(), "by nobody")
	require.Empty(t, format.DecodeEvidence(""))
}

// Earlier versions wrote for each machine only the families that were packed on it.
func TestWhatMachinesPackInOneLayoutIsThatOfAll(t *testing.T) {
	first, two := evidenceOf(map[int]byte{1: 1}, 1).Encode(), evidenceOf(map[int]byte{2: 2}, 2).Encode()
	incomplete := first[:16] + "\x00" + first[17:]
	require.Equal(t, evidenceOf(map[int]byte{1: 1, 2: 2}, 1, 2), format.DecodeEvidence(incomplete+two))
}

func TestWhatIsNotWrittenSoIsNoEvidence(t *testing.T) {
	first := evidenceOf(map[int]byte{1: 1, 2: 2}, 1).Encode()
	row := (len(first) - 18) / 2
	for name, b := range map[string]string{
		"cut off":                      first[:len(first)-1],
		"cut off in a head":            first + first[:17],
		"more":                         first + "\x00",
		"neither complete nor not":     first[:16] + "\x02" + first[17:],
		"no families":                  first[:17] + "\x00",
		"more families than there may": first[:17] + "\x41" + strings.Repeat("f", 65*row),
		"zeros":                        strings.Repeat("\x00", 1000),
	} {
		require.Empty(t, format.DecodeEvidence(b), name)
	}
}

// A file that goes from machine to machine does not grow without end.
func TestEvidenceHasABound(t *testing.T) {
	sums := map[int]byte{}
	for i := range 100 {
		sums[i] = 1
	}
	many := evidenceOf(sums, 40)
	for i := range byte(39) {
		many = many.Merge(evidenceOf(sums, i))
	}
	read := format.DecodeEvidence(many.Encode())
	require.Len(t, read.Machines, format.MostMachines)
	require.Contains(t, read.Machines, different(40), "the first are kept")
	require.Len(t, read.Families, format.MostFamilies)
	require.Less(t, len(many.Encode()), 32<<10)
	require.Empty(t, format.DecodeEvidence(many.Encode()+evidenceOf(sums, 200).Encode()))
}

func TestOfTwoThatSayDifferentThingsTheFirstIsRight(t *testing.T) {
	mine, theirs := evidenceOf(map[int]byte{1: 1, 2: 2}, 1), evidenceOf(map[int]byte{2: 7, 3: 3}, 2)
	require.Equal(t, evidenceOf(map[int]byte{1: 1, 2: 2, 3: 3}, 1, 2), mine.Merge(theirs))
	require.Equal(t, evidenceOf(map[int]byte{1: 1, 2: 7, 3: 3}, 1, 2), theirs.Merge(mine))
}

func TestFamiliesOfEntriesAreListedOnceByLayout(t *testing.T) {
	f := format.Families{}
	f.Add(different(1), family(1))
	f.Add(different(1), family(1))
	f.Add(different(2), family(1))
	f.Add(different(1), family(0))
	f.Add(different(1), family(1))
	require.Equal(t, []packing.Family{family(0), family(1)}, f.InLayout(different(1)))
	require.Equal(t, []packing.Family{family(1)}, f.InLayout(different(2)))
	require.Empty(t, f.InLayout(different(3)))
}
