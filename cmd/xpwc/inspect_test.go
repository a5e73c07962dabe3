package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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

// printed runs the command, checks its exit code, and returns what it prints on stdout and stderr.
func printed(t testing.TB, dir string, code int, args ...string) string {
	t.Helper()
	got, out, stderr := xpwcIn(t, dir, args...)
	require.Equal(t, code, got, "%v\n%s%s", args, out, stderr)
	return out + stderr
}

// reported runs the command with --json.
func reported[T any](t testing.TB, dir string, code int, args ...string) (v T) {
	t.Helper()
	got, out, stderr := xpwcIn(t, dir, append(args, "--json")...)
	require.Equal(t, code, got, "%v\n%s%s", args, out, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	return v
}

func TestInspectShowsWhatIsInACache(t *testing.T) {
	dir, file := packed(t, face, selfie)
	v := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Equal(t, cachefile.Native, v.Format)
	require.EqualValues(t, 2, v.Generation)
	require.Len(t, v.Layouts, 1)
	require.Equal(t, v.Current, v.Layouts[0].Fingerprint.String())
	require.Equal(t, v.Total, v.Layouts[0].Entries)
	require.Len(t, v.Entries, v.Total)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, info.Size(), v.FileBytes)
	require.Equal(t, info.Size(), v.HeaderBytes+v.PayloadBytes+v.IndexBytes+v.TrailerBytes+v.PaddingBytes+v.DeadBytes+
		v.UncommittedBytes)
	require.Positive(t, v.DeadBytes, "the first model's index")
	for i, e := range v.Entries {
		require.Equal(t, sumUnchecked, e.Checksum)
		require.Equal(t, e.Kernel+e.Bias, e.Name)
		require.True(t, i == 0 || v.Entries[i-1].Offset <= e.Offset)
	}

	text := printed(t, dir, 0, "inspect", "model.xpwc")
	for _, want := range []string{"format version 4, generation 2", "convolution fp32", "this machine's", v.Current,
		fmt.Sprintf("payloads of %d entries", v.Total), "dead"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "checksum", "none was compared")
	text = printed(t, dir, 0, "inspect", "model.xpwc", "--check")
	require.Equal(t, v.Total, strings.Count(text, "   ok\n"))
}

func TestInspectSortsAndFilters(t *testing.T) {
	dir, _ := packed(t, face)
	entries := reported[inspection](t, dir, 0, "inspect", "model.xpwc").Entries
	for order, less := range map[string]func(a, b entryReport) bool{
		"name": func(a, b entryReport) bool { return a.Name < b.Name },
		"size": func(a, b entryReport) bool { return a.Size > b.Size },
		"seed": func(a, b entryReport) bool { return a.Seed < b.Seed },
		"used": func(a, b entryReport) bool { return a.UsedAt > b.UsedAt },
	} {
		sorted := reported[inspection](t, dir, 0, "inspect", "model.xpwc", "--sort", order).Entries
		require.ElementsMatch(t, entries, sorted)
		for i := range sorted[1:] {
			require.False(t, less(sorted[i+1], sorted[i]), "%s: %v before %v", order, sorted[i], sorted[i+1])
		}
	}
	for _, filter := range []string{"regressor", "conv2d_1", "["} {
		matches := func(name string) bool { return strings.Contains(name, filter) }
		want := 0
		for _, e := range entries {
			if matches(e.Name) {
				want++
			}
		}
		v := reported[inspection](t, dir, 0, "inspect", "model.xpwc", "--filter", filter)
		require.Len(t, v.Entries, want, filter)
		require.Equal(t, len(entries), v.Total)
		for _, e := range v.Entries {
			require.True(t, matches(e.Name))
		}
	}
	require.Contains(t, printed(t, dir, 0, "inspect", "model.xpwc", "--filter", "regressor"),
		fmt.Sprintf("2 entries of %d", len(entries)))
	require.Contains(t, printed(t, dir, 0, "inspect", "model.xpwc", "--filter", "nothing"), "No entries")
}

func TestTheMapShowsEveryByte(t *testing.T) {
	dir, _ := packed(t, face, selfie)
	v := reported[inspection](t, dir, 0, "inspect", "model.xpwc", "--map")
	offset := int64(0)
	for _, s := range v.Map {
		require.Equal(t, offset, s.Offset)
		offset += s.Size
	}
	require.Equal(t, v.FileBytes, offset)
	text := printed(t, dir, 0, "inspect", "model.xpwc", "--map")
	drawn, _, _ := strings.Cut(text[strings.Index(text, "0  H"):], "\n\nEach character")
	require.EqualValues(t, "trailer", v.Map[len(v.Map)-1].Kind, "which is smaller than a character stands for")
	for _, mark := range "H#=oI" {
		require.Contains(t, drawn, string(mark))
	}
	for line := range strings.Lines(drawn) {
		require.LessOrEqual(t, len(line), 81)
	}
}

func TestDamageIsFoundWhereItIs(t *testing.T) {
	dir, file := packed(t, face)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, printed(t, dir, 0, "verify", "model.xpwc"), "sound: generation 1")
	v := reported[inspection](t, dir, 0, "inspect", "model.xpwc", "--map")
	want := verification{File: "model.xpwc", Sound: true, Format: cachefile.Native, Generation: 1,
		Entries: v.Total, PayloadBytes: v.PayloadBytes, Problems: []cachefile.Problem{}}
	require.Equal(t, want, reported[verification](t, dir, 0, "verify", "model.xpwc"))
	index := v.Slots[1].IndexAt
	trailer := v.Map[len(v.Map)-1].Offset
	last := v.Entries[len(v.Entries)-1]
	end := int64(len(good))
	for name, c := range map[string]struct {
		flipped  int64 // offset of a byte
		reported int64
		message  string
		entry    string
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
			bad[c.flipped] ^= 4
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), bad, 0o600))
			v := reported[verification](t, dir, 1, "verify", "bad")
			require.False(t, v.Sound)
			ok := false
			for _, p := range v.Problems {
				ok = ok || p.Name == c.entry && strings.Contains(p.Message, c.message) &&
					(p.Offset == c.reported || strings.Contains(c.message, "block"))
			}
			require.True(t, ok, "%+v", v.Problems)
			text := printed(t, dir, 1, "verify", "bad")
			require.Contains(t, text, fmt.Sprintf("bad: offset %d: ", v.Problems[0].Offset))
			require.Contains(t, text, "xpwc: bad: ")
		})
	}
	cut := append([]byte(nil), good[:end-5]...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), cut, 0o600))
	require.Contains(t, printed(t, dir, 1, "verify", "bad"),
		fmt.Sprintf("offset %d: the file ends here, generation 1 at %d", end-5, end))
	require.Contains(t, printed(t, dir, 1, "inspect", "bad"), "the file ends here")

	// What a killed writer left is reported, and is not damage.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "longer"), append(append([]byte(nil), good...), "tail"...),
		0o600))
	require.Contains(t, printed(t, dir, 0, "verify", "longer"), "note: longer: 4 B after the end of generation 1")

	// Every command that reads payloads finds a damaged one.
	bad := append([]byte(nil), good...)
	bad[last.Offset] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), bad, 0o600))
	require.NotContains(t, printed(t, dir, 0, "inspect", "bad"), "damaged")
	checked := reported[inspection](t, dir, 1, "inspect", "bad", "--check")
	require.Len(t, checked.Problems, 1)
	require.Equal(t, sumDamaged, checked.Entries[len(checked.Entries)-1].Checksum)
	require.Contains(t, printed(t, dir, 1, "convert", "bad", "--to", "native", "-o", "out"),
		"xpwc compact leaves it out")
	require.NoFileExists(t, filepath.Join(dir, "out"))
	require.Contains(t, printed(t, dir, 0, "compact", "bad"), "1 payload had a wrong checksum and was dropped")
	printed(t, dir, 0, "verify", "bad")
	require.Contains(t, printed(t, dir, 1, "diff", "model.xpwc", "bad"), "1 only in A")
}

// A reader sees a whole generation while another process packs.
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

// A single run has right outputs even from a damaged file: it has no second session.
func TestRunUsesNoDamagedPayload(t *testing.T) {
	dir, file := packed(t, face)
	want, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	entries := reported[inspection](t, dir, 0, "inspect", "model.xpwc").Entries
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, e := range entries {
		content[e.Offset+e.Size/2] ^= 0x40
	}
	require.NoError(t, os.WriteFile(file, content, 0o600))
	got, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	for i := range want.Outputs {
		require.Equal(t, want.Outputs[i].SHA256, got.Outputs[i].SHA256)
	}
	require.Contains(t, strings.Join(got.Cache.Notes, "\n"), "damaged packed weights")
	printed(t, dir, 0, "verify", "model.xpwc")
}

func TestAFileWithoutItsHeaderIsDamagedAndNotExecuTorchs(t *testing.T) {
	dir, file := packed(t, face)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	const header = 4096
	destroyed := func(name string, start, end, size int) {
		b := slices.Clone(whole[:size])
		clear(b[start:end])
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	destroyed("all", 0, header, len(whole))
	destroyed("beginning", 0, 512, len(whole))
	destroyed("everything", 0, header, len(whole)-20)
	for _, name := range []string{"all", "beginning"} {
		for _, command := range []string{"inspect", "verify"} {
			got := printed(t, dir, 1, command, name)
			require.Contains(t, got, "the header is damaged")
			require.NotContains(t, got, "ExecuTorch")
		}
		require.Contains(t, printed(t, dir, 1, "convert", name, "--to", "native", "-o", "new"), "the header is damaged")
		printed(t, dir, 0, "convert", "model.xpwc", "--to", "native", "-o", name) // a damaged cache is replaced
	}
	require.Contains(t, printed(t, dir, 1, "inspect", "everything"), "as a power failure before the first commit")
}

func TestAPathDoesNothingToATerminal(t *testing.T) {
	dir := t.TempDir()
	packJSON(t, dir, faceModel(t), "-o", "model.xpwc")
	const name = "a\x1b[31m\u009b31mb.xpwc"
	require.NoError(t, os.Rename(filepath.Join(dir, "model.xpwc"), filepath.Join(dir, name)))
	for _, command := range []string{"inspect", "verify", "who"} {
		said := printed(t, dir, 0, command, name)
		require.Contains(t, said, "a?[31m?31mb.xpwc", command)
		require.NotContains(t, said, "\x1b", command)
		require.NotContains(t, said, "\u009b", command)
	}
}

func TestVerifyTellsOfAFileThatProgramsRefuse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes do not say who may write")
	}
	dir := t.TempDir()
	packJSON(t, dir, faceModel(t), "-o", "model.xpwc")
	require.NoError(t, os.Chmod(filepath.Join(dir, "model.xpwc"), 0o666))
	said := printed(t, dir, exitFailed, "verify", "model.xpwc")
	require.Contains(t, said, "sound")
	require.Contains(t, said, "programs refuse it, because its mode 0666 lets others write to it")
	require.Contains(t, printed(t, dir, exitFailed, "run", faceModel(t), "--cache", "model.xpwc"), "its mode 0666")
	require.Equal(t, "its mode 0666 lets others write to it",
		reported[verification](t, dir, exitFailed, "verify", "model.xpwc").Refused)
}
