package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
)

// packed makes a cache file of models in a new directory.
func packed(t testing.TB, models ...string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	for _, m := range models {
		runJSON(t, dir, testModel(t, m), "--cache", "model.xpwc")
	}
	return dir, filepath.Join(dir, "model.xpwc")
}

const (
	face   = "face_detection_short_range.tflite"
	selfie = "selfie_segmentation.tflite"
)

// says runs the command and checks its exit code; what it prints, of both kinds, is returned as one.
func says(t testing.TB, dir string, code int, args ...string) string {
	t.Helper()
	got, out, stderr := xpwcIn(t, dir, args...)
	require.Equal(t, code, got, "%v\n%s%s", args, out, stderr)
	return out + stderr
}

// tells runs the command with --json.
func tells[T any](t testing.TB, dir string, code int, args ...string) (v T) {
	t.Helper()
	got, out, stderr := xpwcIn(t, dir, append(args, "--json")...)
	require.Equal(t, code, got, "%v\n%s%s", args, out, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	return v
}

// packedOnALesserCPU adds a model to a cache as a machine without AVX would.
func packedOnALesserCPU(t testing.TB, dir, model string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("features of this architecture's CPUs cannot be hidden")
	}
	cmd := exec.Command(os.Args[0], "run", testModel(t, model), "--cache", "model.xpwc")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envCPU+"=sse2")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestInspectShowsWhatIsInACache(t *testing.T) {
	dir, file := packed(t, face, selfie)
	v := tells[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Equal(t, cachefile.Native, v.Format)
	require.EqualValues(t, 2, v.Generation)
	require.Len(t, v.Layouts, 1)
	require.True(t, v.Layouts[0].Current)
	require.Equal(t, v.Here, v.Layouts[0].Fingerprint)
	require.Equal(t, v.Total, v.Layouts[0].Entries)
	require.Len(t, v.Entries, v.Total)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, info.Size(), v.Bytes["file"])
	sum := int64(0)
	for part, n := range v.Bytes {
		if part != "file" {
			sum += n
		}
	}
	require.Equal(t, info.Size(), sum)
	require.Positive(t, v.Bytes["dead"], "the first model's index")
	for i, e := range v.Entries {
		require.Equal(t, sumUnchecked, e.Checksum)
		require.Equal(t, e.Kernel+e.Bias, e.Name)
		require.True(t, i == 0 || v.Entries[i-1].Offset <= e.Offset)
	}

	text := says(t, dir, 0, "inspect", "model.xpwc")
	for _, want := range []string{"format version 2, generation 2", "this machine's", v.Here, fmt.Sprintf("payloads of %d entries", v.Total), "dead", "not checked"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, v.Total, strings.Count(text, "not checked"))
	text = says(t, dir, 0, "inspect", "model.xpwc", "--check")
	require.Equal(t, v.Total, strings.Count(text, "   ok\n"))
	require.NotContains(t, says(t, dir, 0, "inspect", "model.xpwc", "--summary"), "offset")
}

func TestInspectSortsAndFilters(t *testing.T) {
	dir, _ := packed(t, face)
	all := tells[inspection](t, dir, 0, "inspect", "model.xpwc").Entries
	for order, less := range map[string]func(a, b entryReport) bool{
		"name": func(a, b entryReport) bool { return a.Name < b.Name },
		"size": func(a, b entryReport) bool { return a.Size > b.Size },
		"seed": func(a, b entryReport) bool { return a.Seed < b.Seed },
		"used": func(a, b entryReport) bool { return a.UsedAt > b.UsedAt },
	} {
		sorted := tells[inspection](t, dir, 0, "inspect", "model.xpwc", "--sort", order).Entries
		require.ElementsMatch(t, all, sorted)
		for i := range sorted[1:] {
			require.False(t, less(sorted[i+1], sorted[i]), "%s: %v before %v", order, sorted[i], sorted[i+1])
		}
	}
	for filter, matches := range map[string]func(name string) bool{
		"regressor":  func(name string) bool { return strings.Contains(name, "regressor") },
		"conv2d_1*":  func(name string) bool { return strings.HasPrefix(name, "conv2d_1") },
		"conv2d_?/*": func(name string) bool { return strings.HasPrefix(name, "conv2d_") && name[8] == '/' },
		"[":          func(string) bool { return false },
	} {
		want := 0
		for _, e := range all {
			if matches(e.Name) {
				want++
			}
		}
		v := tells[inspection](t, dir, 0, "inspect", "model.xpwc", "--filter", filter)
		require.Len(t, v.Entries, want, filter)
		require.Equal(t, len(all), v.Total)
		for _, e := range v.Entries {
			require.True(t, matches(e.Name))
		}
	}
	require.Contains(t, says(t, dir, 0, "inspect", "model.xpwc", "--filter", "regressor"), fmt.Sprintf("2 entries of %d", len(all)))
	require.Contains(t, says(t, dir, 0, "inspect", "model.xpwc", "--filter", "nothing"), "No entries")
}

func TestTheMapShowsEveryByte(t *testing.T) {
	dir, _ := packed(t, face, selfie)
	v := tells[inspection](t, dir, 0, "inspect", "model.xpwc", "--map")
	at := int64(0)
	for _, s := range v.Map {
		require.Equal(t, at, s.Offset)
		at += s.Size
	}
	require.Equal(t, v.Bytes["file"], at)
	text := says(t, dir, 0, "inspect", "model.xpwc", "--map")
	drawn, _, _ := strings.Cut(text[strings.Index(text, "0  H"):], "\n\nEach character")
	for _, mark := range "H#=oIT" {
		require.Contains(t, drawn, string(mark))
	}
	for line := range strings.Lines(drawn) {
		require.LessOrEqual(t, len(line), 81)
	}
	require.True(t, strings.HasSuffix(strings.TrimSpace(drawn), "T"))
}

func TestDamageIsFoundWhereItIs(t *testing.T) {
	dir, file := packed(t, face)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, says(t, dir, 0, "verify", "model.xpwc"), "sound: generation 1")
	v := tells[inspection](t, dir, 0, "inspect", "model.xpwc", "--map")
	require.Equal(t, verification{File: "model.xpwc", Sound: true, Format: cachefile.Native, Generation: 1, Entries: v.Total,
		PayloadBytes: v.Bytes["payloads"], Problems: []problemReport{}}, tells[verification](t, dir, 0, "verify", "model.xpwc"))
	index := v.Slots[1].IndexAt
	trailer := v.Map[len(v.Map)-1].Offset
	last := v.Entries[len(v.Entries)-1]
	end := int64(len(good))
	for name, c := range map[string]struct {
		at     int64
		offset int64
		says   string
		entry  string
	}{
		"the header":            {20, 0, "the header's checksum", ""},
		"the slot in force":     {1024 + 3, 1024, "slot of odd generations", ""},
		"the slot that is free": {512 + 3, 512, "slot of even generations", ""},
		"the index' root":       {index + 16, index, "", ""},
		"a block of the index":  {trailer - 1, index, "checksum of block", ""},
		"a payload":             {last.Offset + last.Size/2, last.Offset, "checksum", last.Name},
		"ExecuTorch's index":    {trailer + 8, trailer, "trailer for ExecuTorch", ""},
		"its footer":            {end - 20, trailer, "trailer for ExecuTorch", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := append([]byte(nil), good...)
			bad[c.at] ^= 4
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), bad, 0o600))
			v := tells[verification](t, dir, 1, "verify", "bad")
			require.False(t, v.Sound)
			found := false
			for _, p := range v.Problems {
				found = found || p.Entry == c.entry && strings.Contains(p.What, c.says) && (p.Offset == c.offset || strings.Contains(c.says, "block"))
			}
			require.True(t, found, "%+v", v.Problems)
			text := says(t, dir, 1, "verify", "bad")
			require.Contains(t, text, fmt.Sprintf("bad: offset %d: ", v.Problems[0].Offset))
			require.Contains(t, text, "xpwc: bad: ")
		})
	}
	cut := append([]byte(nil), good[:end-5]...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), cut, 0o600))
	require.Contains(t, says(t, dir, 1, "verify", "bad"), fmt.Sprintf("offset %d: the file ends here, generation 1 at %d", end-5, end))
	require.Contains(t, says(t, dir, 1, "inspect", "bad"), "the file ends here")

	// What a killed writer left is told, and no damage.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "longer"), append(append([]byte(nil), good...), "tail"...), 0o600))
	require.Contains(t, says(t, dir, 0, "verify", "longer"), "note: longer: 4 B behind the end of generation 1")

	// A damaged payload is seen by whoever looks.
	bad := append([]byte(nil), good...)
	bad[last.Offset] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), bad, 0o600))
	require.NotContains(t, says(t, dir, 0, "inspect", "bad"), "damaged")
	checked := tells[inspection](t, dir, 1, "inspect", "bad", "--check")
	require.Len(t, checked.Damaged, 1)
	require.Equal(t, sumDamaged, checked.Entries[len(checked.Entries)-1].Checksum)
	require.Contains(t, says(t, dir, 1, "convert", "bad", "--to", "native", "-o", "out"), "--skip-damaged")
	require.NoFileExists(t, filepath.Join(dir, "out"))
	skipped := tells[conversion](t, dir, 0, "convert", "bad", "--to", "native", "-o", "out", "--skip-damaged")
	require.Len(t, skipped.LeftOut, 1)
	require.Equal(t, v.Total-1, skipped.Entries)
	require.Contains(t, says(t, dir, 0, "compact", "bad"), "1 payload had a wrong checksum and was dropped")
	says(t, dir, 0, "verify", "bad")
	require.Contains(t, says(t, dir, 1, "diff", "model.xpwc", "bad"), "1 only in A")
}

func TestCompactFreesDeadBytes(t *testing.T) {
	dir, _ := packed(t, face, selfie)
	before := tells[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.NoError(t, os.Link(filepath.Join(dir, "model.xpwc"), filepath.Join(dir, "before")))
	r := tells[rewriting](t, dir, 0, "compact", "model.xpwc")
	require.Equal(t, before.Bytes["file"], r.BytesBefore)
	require.Less(t, r.BytesAfter, r.BytesBefore)
	require.Equal(t, before.Total, r.EntriesAfter)
	after := tells[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Equal(t, r.BytesAfter, after.Bytes["file"])
	require.Zero(t, after.Bytes["dead"])
	says(t, dir, 0, "verify", "model.xpwc")
	require.Contains(t, says(t, dir, 0, "diff", "before", "model.xpwc"), fmt.Sprintf("%d entries in common.", before.Total))
	report, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	require.Zero(t, report.Cache.Packed)

	require.Contains(t, says(t, dir, 1, "compact", "none.xpwc"), "none.xpwc")
	require.NoFileExists(t, filepath.Join(dir, "none.xpwc"))
	says(t, dir, 0, "convert", "model.xpwc", "--to", "xpwc1", "-o", "et")
	require.Contains(t, says(t, dir, 1, "compact", "et"), "xpwc convert")
}

func TestPruneDropsWhatIsNotToBeKept(t *testing.T) {
	dir, _ := packed(t, face)
	whole := tells[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Contains(t, says(t, dir, 1, "prune", "model.xpwc", "--keep-layout", "0000"), "it has "+whole.Here)
	r := tells[rewriting](t, dir, 0, "prune", "model.xpwc", "--keep-layout", whole.Here[:6], "--max-size", "100KiB")
	require.Less(t, r.EntriesAfter, r.EntriesBefore)
	require.Positive(t, r.EntriesAfter)
	require.LessOrEqual(t, r.BytesAfter, int64(100<<10))
	says(t, dir, 0, "verify", "model.xpwc")
	report, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	require.EqualValues(t, r.EntriesAfter, report.Cache.Hits)
	require.EqualValues(t, r.EntriesBefore-r.EntriesAfter, report.Cache.Packed, "what was dropped is packed again")
}

func TestACacheOfTwoKindsOfMachines(t *testing.T) {
	dir, _ := packed(t, face)
	packedOnALesserCPU(t, dir, face)
	v := tells[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Len(t, v.Layouts, 2)
	require.True(t, v.Layouts[0].Current)
	require.False(t, v.Layouts[1].Current)
	other, each := v.Layouts[1].Fingerprint, v.Layouts[0].Entries
	require.Equal(t, each, v.Layouts[1].Entries)
	shown := tells[inspection](t, dir, 0, "inspect", "model.xpwc", "--layout", other[:8])
	require.Len(t, shown.Entries, each)
	require.Equal(t, other, shown.Entries[0].Layout)

	// ExecuTorch's files have one layout: this machine's, unless another is named.
	r := tells[conversion](t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "here")
	require.Equal(t, v.Here, r.Layout)
	require.Equal(t, each, r.Entries)
	r = tells[conversion](t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "there", "--layout", other)
	require.Equal(t, other, r.Layout)
	require.Contains(t, says(t, dir, 1, "diff", "here", "there"), "other")
	require.Contains(t, says(t, dir, 1, "diff", "model.xpwc", "here"), fmt.Sprintf("%d entries in common, %d only in A", each, each))

	says(t, dir, 0, "convert", "model.xpwc", "--to", "native", "-o", "copy", "--layout", other)
	require.Contains(t, says(t, dir, 0, "inspect", "copy"), "This machine's layout, "+v.Here+", is not among them")
	require.Contains(t, says(t, dir, 1, "prune", "copy", "--keep-layout", "current"), "no entries of this machine's layout")
	require.Contains(t, says(t, dir, 1, "diff", "copy", "here"), "other", "ExecuTorch's tells no layouts; bytes and seeds differ")
	require.Len(t, tells[comparison](t, dir, 1, "diff", "model.xpwc", "copy").Differences, each)

	says(t, dir, 0, "prune", "model.xpwc", "--keep-layout", "current")
	require.Len(t, tells[inspection](t, dir, 0, "inspect", "model.xpwc").Layouts, 1)
	require.Contains(t, says(t, dir, 1, "diff", "model.xpwc", "copy"), fmt.Sprintf("%d other layout", each))
}

func TestExecuTorchsFilesAreConvertedBothWays(t *testing.T) {
	dir, _ := packed(t, face)
	want, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	native := tells[inspection](t, dir, 0, "inspect", "model.xpwc")
	for _, format := range []string{"xpwc1", "xpwc2"} {
		t.Run(format, func(t *testing.T) {
			r := tells[conversion](t, dir, 0, "convert", "model.xpwc", "--to", format, "-o", format)
			require.Equal(t, native.Total, r.Entries)
			require.Empty(t, r.LeftOut)
			require.Contains(t, says(t, dir, 0, "verify", format), "sound as far as ExecuTorch's files")
			v := tells[inspection](t, dir, 0, "inspect", format)
			require.EqualValues(t, format, v.Format)
			require.Len(t, v.Entries, native.Total)
			require.Equal(t, sumNone, v.Entries[0].Checksum)
			require.Contains(t, says(t, dir, 0, "inspect", format), "ExecuTorch's packed weights cache")
			says(t, dir, 0, "diff", "model.xpwc", format)

			require.Contains(t, says(t, dir, 2, "convert", format, "--to", "native", "-o", "back"), "--model")
			back := tells[conversion](t, dir, 0, "convert", format, "--to", "native", "-o", "back", "--model", testModel(t, face))
			require.EqualValues(t, native.Total, *back.Adopted)
			require.Equal(t, native.Total, back.Entries)
			says(t, dir, 0, "verify", "back")
			says(t, dir, 0, "diff", "model.xpwc", "back")
			report, _ := runJSON(t, dir, testModel(t, face), "--cache", "back")
			require.Zero(t, report.Cache.Packed)
			require.Equal(t, want.Outputs, report.Outputs)
			require.Contains(t, says(t, dir, 0, "convert", format, "--to", "native", "-o", "back", "--model", testModel(t, selfie)),
				fmt.Sprintf("0 of ExecuTorch's %d entries adopted", native.Total))
		})
	}
	b, err := os.ReadFile(filepath.Join(dir, "xpwc2"))
	require.NoError(t, err)
	footer := b[len(b)-20:]
	require.EqualValues(t, native.Total, binary.LittleEndian.Uint32(footer[8:]))
	require.Equal(t, "CWPX", string(footer[12:16]), "0x58505743")
	require.Contains(t, says(t, dir, 1, "convert", "xpwc1", "--to", "xpwc2", "-o", "out"), "has no seeds")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "nothing is left beside the files")
}

func TestConvertNeverWritesOverItsSource(t *testing.T) {
	dir, file := packed(t, face)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.Symlink("model.xpwc", filepath.Join(dir, "link")))
	require.NoError(t, os.Link(file, filepath.Join(dir, "hardlink")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("my notes"), 0o600))
	says(t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "et")
	for _, out := range []string{"model.xpwc", "./model.xpwc", "link", "hardlink"} {
		for _, to := range formatNames {
			require.Contains(t, says(t, dir, 1, "convert", "model.xpwc", "--to", to, "-o", out), "is the file that is read")
		}
	}
	require.Contains(t, says(t, dir, 1, "convert", "et", "--to", "native", "-o", "et", "--model", testModel(t, face)), "is the file that is read")
	require.Contains(t, says(t, dir, 1, "convert", "model.xpwc", "--to", "native", "-o", "notes"), "not a packed weights cache")
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, before, after)
	notes, err := os.ReadFile(filepath.Join(dir, "notes"))
	require.NoError(t, err)
	require.Equal(t, "my notes", string(notes))
}

func TestMistakesWithCacheFilesAreTold(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("my notes"), 0o600))
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "accepts 1 arg", []string{"inspect"}},
		{exitUsage, "name, size, offset, used, seed", []string{"inspect", "notes", "--sort", "color"}},
		{exitFailed, "not a packed weights cache", []string{"inspect", "notes"}},
		{exitFailed, "not a packed weights cache", []string{"verify", "notes"}},
		{exitFailed, "absent", []string{"verify", "absent"}},
		{exitFailed, "not a regular file", []string{"inspect", "."}},
		{exitUsage, "--keep-layout", []string{"prune", "notes"}},
		{exitUsage, "200MiB", []string{"prune", "notes", "--max-size", "lots"}},
		{exitUsage, "200MiB", []string{"prune", "notes", "--max-size=-5"}},
		{exitFailed, "not a packed weights cache", []string{"prune", "notes", "--max-size", "1MB"}},
		{exitUsage, "native, xpwc1, xpwc2", []string{"convert", "notes"}},
		{exitUsage, "native, xpwc1, xpwc2", []string{"convert", "notes", "--to", "zip"}},
		{exitUsage, "-o", []string{"convert", "notes", "--to", "native"}},
		{exitUsage, "accepts 2 arg", []string{"diff", "notes"}},
		{exitUsage, "absent", []string{"diff", "absent", "notes"}},
		{exitUsage, "accepts 1 arg", []string{"man"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, out, stderr := xpwcIn(t, dir, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Empty(t, out)
			require.Contains(t, stderr, "xpwc: ")
			require.Contains(t, stderr, c.says)
		})
	}
}

func TestShellsCompleteFilesAndChoices(t *testing.T) {
	dir, _ := packed(t, face)
	here := tells[inspection](t, dir, 0, "inspect", "model.xpwc").Here
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, says(t, dir, 0, "completion", shell), "xpwc")
	}
	const files, noFiles, directories = ":0\n", ":4\n", ":16\n"
	for words, want := range map[string][]string{
		"inspect |":                           {files},
		"convert model.xpwc -o |":             {files},
		"convert model.xpwc --to |":           {"native\n", "xpwc1\n", "xpwc2\n", noFiles},
		"inspect --sort |":                    {"size\n", noFiles},
		"prune model.xpwc --keep-layout |":    {"current\t", here, noFiles},
		"prune notthere.xpwc --keep-layout |": {"current\t", noFiles},
		"man |":                               {directories},
	} {
		got := says(t, dir, 0, append([]string{"__complete"}, strings.Split(strings.ReplaceAll(words, "|", ""), " ")...)...)
		for _, w := range want {
			require.Contains(t, got, w, words)
		}
	}
}

func TestEveryCommandHasAManualPageAndExamples(t *testing.T) {
	dir := t.TempDir()
	says(t, dir, 0, "man", "pages")
	for _, command := range newRootCommand().Commands() {
		if command.Hidden {
			continue
		}
		require.NotEmpty(t, command.Example, command.Name())
		require.NotEmpty(t, command.Long, command.Name())
		page, err := os.ReadFile(filepath.Join(dir, "pages", "xpwc-"+command.Name()+".1"))
		require.NoError(t, err)
		require.Contains(t, string(page), ".SH EXAMPLE")
	}
	require.FileExists(t, filepath.Join(dir, "pages", "xpwc.1"))
	require.NoFileExists(t, filepath.Join(dir, "pages", "xpwc-measure.1"))
}

// Names come out of files that anybody may have written.
func TestNamesDoNothingToATerminal(t *testing.T) {
	require.Equal(t, "a?[31mb?c é", printable("a\x1b[31mb\nc é"))
	require.Equal(t, "?", printable("\xff"))
	require.Equal(t, "abcd", shorten("abcd", 4))
	require.Equal(t, "a…de", shorten("abcde", 4))
}

func TestSizesAreReadWithTheirUnits(t *testing.T) {
	for text, want := range map[string]int64{"200MiB": 200 << 20, "1.5 GiB": 3 << 29, "10kB": 10_000, "4096": 4096} {
		n, err := parseSize("max-size", text)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	for _, text := range []string{"", "0", "-1", "many", "5 parsecs"} {
		_, err := parseSize("max-size", text)
		require.ErrorAs(t, err, new(usageError), text)
	}
}

// Whoever looks while another process packs sees some whole generation.
func TestLookingWhileAnotherProcessWrites(t *testing.T) {
	dir, _ := packed(t, face)
	written := make(chan error)
	go func() {
		defer close(written)
		for _, m := range []string{selfie, "hand_landmark_lite.tflite", "pose_landmark_lite.tflite", face} {
			cmd := exec.Command(tool, "run", testModel(t, m), "--cache", "model.xpwc")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				written <- fmt.Errorf("%w\n%s", err, out)
			}
		}
	}()
	generations := map[uint64]bool{}
	for busy := true; busy; {
		select {
		case err := <-written:
			require.NoError(t, err)
			busy = false
		default:
		}
		problems, err := cachefile.Verify(filepath.Join(dir, "model.xpwc"), nil)
		require.NoError(t, err)
		require.Empty(t, problems)
		f, err := cachefile.Open(filepath.Join(dir, "model.xpwc"))
		require.NoError(t, err)
		info, err := f.Info()
		require.NoError(t, err)
		require.NoError(t, f.Close())
		generations[info.Generation] = true
	}
	require.Greater(t, len(generations), 1)
}
