//go:build linux && cgo

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Resources of a process: see cycles.c.
type possessions struct {
	resident, allocated, descriptors, threads, mappings int
}

// smallest returns the minimum of each count that cycles.c printed for cycles first to last: garbage collection makes
// memory go up and down.
func smallest(t *testing.T, out string, first, last int) possessions {
	t.Helper()
	var minimum possessions
	seen := 0
	for line := range strings.Lines(out) {
		var cycle int
		var p possessions
		_, err := fmt.Sscan(line, &cycle, &p.resident, &p.allocated, &p.descriptors, &p.threads, &p.mappings)
		require.NoError(t, err, line)
		if cycle < first || cycle > last {
			continue
		}
		if seen++; seen == 1 {
			minimum = p
		}
		minimum = possessions{
			min(minimum.resident, p.resident), min(minimum.allocated, p.allocated),
			min(minimum.descriptors, p.descriptors), min(minimum.threads, p.threads), min(minimum.mappings, p.mappings),
		}
	}
	require.Positive(t, seen)
	return minimum
}

// growth returns the resources that 8,000 cycles added.
func growth(t *testing.T, leak int) possessions {
	t.Helper()
	p := program{source: "cycles.c", compiler: compilersFor("cycles.c")[0], linkage: static}
	out := p.run(t, nil, t.TempDir(), "10000", fmt.Sprint(leak))
	early, late := smallest(t, out, 1000, 2000), smallest(t, out, 9000, 10000)
	t.Logf("%+v, later %+v", early, late)
	return possessions{
		late.resident - early.resident, late.allocated - early.allocated, late.descriptors - early.descriptors,
		late.threads - early.threads, late.mappings - early.mappings,
	}
}

const (
	// Resident memory varies by half a megabyte with the free memory that Go's and C's heaps keep. 1,000 bytes a cycle
	// come to 8,000,000.
	residentLimit = 2_000_000
	// A thread that Go's runtime adds, as it does where others use the processors, has stacks and what C allocates for
	// it.
	residentOfThread = 300_000
	// What C has allocated is known to the byte, but threads of Go's, which may still be added, have some. 100 bytes a
	// cycle come to 800,000.
	allocatedLimit = 40_000
)

func TestTenThousandCyclesLeakNothing(t *testing.T) {
	t.Parallel()
	g := growth(t, 0)
	require.Less(t, g.resident-residentOfThread*max(g.threads, 0), residentLimit)
	require.Less(t, g.allocated, allocatedLimit)
	require.LessOrEqual(t, g.descriptors, 0)
	require.LessOrEqual(t, g.threads, 8)
	require.LessOrEqual(t, g.mappings, 8*4)
}

func TestALeakOfAHundredBytesIsSeen(t *testing.T) {
	t.Parallel()
	require.Greater(t, growth(t, 100).allocated, allocatedLimit)
}

// A smaller leak may lie in memory that was resident before.
func TestALeakOfAThousandBytesMakesTheProcessLarger(t *testing.T) {
	t.Parallel()
	require.Greater(t, growth(t, 1000).resident, residentLimit)
}
