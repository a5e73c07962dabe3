//go:build linux && cgo

package main

import (
	flags "flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/console"
)

var update = flags.Bool("update", false, "write the figures of docs/guide-c.md")

// A stage is what a host has in it: threads, descriptors, kilobytes of addresses and of private memory; and the
// microseconds that it took to come there.
type stage struct {
	threads, descriptors, addresses, private int
	took                                     float64
}

// stagesOf runs a host and returns the medians of each stage.
func stagesOf(t *testing.T, p program) map[string]stage {
	t.Helper()
	sealed, err := filepath.Abs(filepath.Join("..", "internal", "format", "testdata", "version4.golden"))
	require.NoError(t, err)
	stagesByProgram := map[string][]stage{}
	for range 11 {
		for line := range strings.Lines(p.run(t, nil, t.TempDir(), sealed)) {
			var name string
			var s stage
			_, err := fmt.Sscan(line, &name, &s.threads, &s.descriptors, &s.addresses, &s.private, &s.took)
			require.NoError(t, err, line)
			stagesByProgram[name] = append(stagesByProgram[name], s)
		}
	}
	medians := map[string]stage{}
	for name, runs := range stagesByProgram {
		medians[name] = stage{
			threads:     median(runs, func(s stage) int { return s.threads }),
			descriptors: median(runs, func(s stage) int { return s.descriptors }),
			addresses:   median(runs, func(s stage) int { return s.addresses }),
			private:     median(runs, func(s stage) int { return s.private }),
			took:        median(runs, func(s stage) float64 { return s.took }),
		}
	}
	return medians
}

func median[T any, N int | float64](samples []T, number func(T) N) N {
	var numbers []N
	for _, v := range samples {
		numbers = append(numbers, number(v))
	}
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

// longerThan returns the median number of milliseconds that a process takes longer than baseline, both with an empty
// main. Each pair runs back to back, under the same load.
func longerThan(t *testing.T, baseline, p program) float64 {
	t.Helper()
	took := func(p program) float64 {
		path := p.build(t)
		began := time.Now()
		require.NoError(t, exec.Command(path).Run())
		return console.Milliseconds(time.Since(began))
	}
	var differences []float64
	for range 101 {
		differences = append(differences, -took(baseline)+took(p))
	}
	return max(median(differences, func(v float64) float64 { return v }), 0)
}

// strippedSize returns the size of a file without debug information.
func strippedSize(t *testing.T, path string) int64 {
	t.Helper()
	stripped := filepath.Join(t.TempDir(), "stripped")
	require.NoError(t, tool("", nil, "strip", "-o", stripped, path))
	info, err := os.Stat(stripped)
	require.NoError(t, err)
	return info.Size()
}

// costs returns the table of guide-c.md: the costs of a host over the same host without the library.
func costs(t *testing.T) string {
	t.Helper()
	c := compilersFor("cost.c")[0]
	without := program{source: "cost.c", compiler: c, linkage: static, flags: []string{"-DWITHOUT"}}
	base, size := stagesOf(t, without)["linked"], strippedSize(t, without.build(t))
	reader := []string{"-DREADER", filepath.Join(installed(t), prefix, "share", "xpwc", "reader", "xpwc_reader.c")}
	var rows [][]string
	for _, host := range []struct {
		name    string
		linkage linkage
		flags   []string
	}{{"static", static, nil}, {"shared", shared, nil}, {"reader", static, reader}} {
		p := program{source: "cost.c", compiler: c, linkage: host.linkage, flags: host.flags}
		file := strippedSize(t, p.build(t)) - size
		if host.linkage == shared {
			file = strippedSize(t, filepath.Join(installed(t), prefix, "lib", soname(t)))
		}
		stages, start := stagesOf(t, p), longerThan(t, without, p)
		for _, s := range []struct{ name, title string }{
			{"linked", "linked"}, {"called", "after the first call"}, {"opened", "with a file open"},
		} {
			stage := stages[s.name]
			took, inFiles := fmt.Sprintf("%.2f ms", stage.took/1000), ""
			if s.name == "linked" {
				took, inFiles = fmt.Sprintf("%.2f ms", start), console.Mebibytes(file)
			}
			rows = append(rows, []string{
				host.name + ", " + s.title, inFiles,
				fmt.Sprint(stage.threads - base.threads), fmt.Sprint(stage.descriptors - base.descriptors),
				console.Mebibytes(int64(stage.addresses-base.addresses) << 10),
				console.Mebibytes(int64(stage.private-base.private) << 10), took,
			})
		}
		rows = append(rows, []string{
			host.name + ", a later call", "", "", "", "", "", fmt.Sprintf("%.2f µs", stages["thousand"].took/1000),
		})
	}
	text := "| | file | threads | descriptors | addresses | private memory | time |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n"
	for _, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
	}
	return strings.ReplaceAll(text, "  |", " |")
}

// With -update the test writes the figures. Otherwise it compares the table without digits, which vary by machine.
func TestWhatItCostsAHostIsInTheGuide(t *testing.T) {
	path := filepath.Join("..", "docs", "guide-c.md")
	guide, err := os.ReadFile(path)
	require.NoError(t, err)
	const begin, end = "<!-- make host-costs -->\n\n", "\n<!-- end -->"
	head, rest, ok := strings.Cut(string(guide), begin)
	require.True(t, ok)
	table, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	measured := costs(t)
	t.Log("\n" + measured)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+begin+measured+end+tail), 0o644))
		return
	}
	digits := regexp.MustCompile(`-?[0-9.]+ ?(ms|µs|MiB)?`)
	require.Equal(t, digits.ReplaceAllString(table, "N"), digits.ReplaceAllString(measured, "N"), "run make host-costs")
	for line := range strings.Lines(measured) { // whatever the machine is
		if strings.Contains(line, ", linked") {
			require.Contains(t, line, " MiB | 0 | 0 |")
		}
	}
}
