package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/console"
)

func TestMistakesWithCacheFilesAreReported(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("my notes"), 0o600))
	for _, c := range []struct {
		code    int
		message string
		args    []string
	}{
		{exitUsage, "arguments are missing; usage: xpwc inspect FILE", []string{"inspect"}},
		{exitUsage, "did you mean inspect?", []string{"inspec", "notes"}},
		{exitUsage, "unknown command \"frobnicate\"\n", []string{"frobnicate"}},
		{exitUsage, "wrong number of arguments; usage: xpwc inspect FILE", []string{"inspect", "notes", "b"}},
		{exitUsage, "name, offset, seed, size, used", []string{"inspect", "notes", "--sort", "color"}},
		{exitFailed, "not a packed weights cache", []string{"inspect", "notes"}},
		{exitFailed, "not a packed weights cache", []string{"verify", "notes"}},
		{exitFailed, "absent", []string{"verify", "absent"}},
		{exitFailed, "not a regular file", []string{"inspect", "."}},
		{exitUsage, "--keep-layout", []string{"prune", "notes"}},
		{exitUsage, "200MiB", []string{"prune", "notes", "--max-size", "lots"}},
		{exitUsage, "200MiB", []string{"prune", "notes", "--max-size=-5"}},
		{exitFailed, "not a packed weights cache", []string{"prune", "notes", "--max-size", "1MB"}},
		{exitUsage, "native, xpwc2", []string{"convert", "notes"}},
		{exitUsage, "native, xpwc2", []string{"convert", "notes", "--to", "zip"}},
		{exitUsage, "-o", []string{"convert", "notes", "--to", "native"}},
		{exitUsage, "usage: xpwc diff A B", []string{"diff", "notes"}},
		{exitUsage, "absent", []string{"diff", "absent", "notes"}},
		{exitUsage, "missing; usage: xpwc man DIR", []string{"man"}},
		{exitUsage, "unknown command \"pakc\"; did you mean pack?", []string{"help", "pakc"}},
		{exitUsage, "unknown command \"tcsh\"\n", []string{"completion", "tcsh"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, out, stderr := xpwcIn(t, dir, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Empty(t, out)
			require.Contains(t, stderr, "xpwc: ")
			require.Contains(t, stderr, c.message)
		})
	}
}

func TestShellsCompleteFiles(t *testing.T) {
	dir, _ := packed(t, face)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, printed(t, dir, 0, "completion", shell), "xpwc")
	}
	for _, words := range []string{"inspect |", "convert model.xpwc -o |", "report model.xpwc -o |"} {
		got := printed(t, dir, 0, append([]string{"__complete"},
			strings.Split(strings.ReplaceAll(words, "|", ""), " ")...)...)
		require.Contains(t, got, ":0\n", words)
	}
}

func TestEveryCommandHasAManualPageAndExamples(t *testing.T) {
	dir := t.TempDir()
	printed(t, dir, 0, "man", "pages")
	for _, command := range newRootCommand().Commands() {
		if command.Hidden || command.Name() == "completion" || command.Name() == "help" { // whose texts are cobra's
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

func TestColumnsMakeRoomForNames(t *testing.T) {
	rows := [][]string{{"name", "size", "used", "checksum"}}
	for i := range 3 {
		e := cachefile.Entry{Kernel: fmt.Sprintf("model/block_%d/attention/weight", i),
			Bias: strings.Repeat("/bias", 30)}
		rows = append(rows, []string{shownName(&e), fmt.Sprintf("%d B", i), "2024-11-08", "not checked"})
	}
	whole := console.Table{Rows: rows}
	fitEntries(&whole, 0)
	require.Len(t, whole.Rows[1], 4)
	fitEntries(&whole, 60)
	for i, row := range whole.Rows[1:] {
		name := fmt.Sprintf("model/block_%d/attention/weight + bias", i)
		require.Equal(t, []string{name, fmt.Sprintf("%d B", i)}, row)
	}
	fitEntries(&whole, 35)
	require.Equal(t, "…block_1/attention/weig…", whole.Rows[2][0], "in the middle they differ")
	for _, row := range whole.Rows {
		require.LessOrEqual(t, utf8.RuneCountInString(row[0]), whole.Room(35))
	}
}

func TestNamesThatDifferComeBeforeSeedsAndOffsets(t *testing.T) {
	table := console.Table{Rows: [][]string{{"name", "size", "seed", "offset", "operator"}}}
	for i := range 3 {
		e := cachefile.Entry{Kernel: fmt.Sprintf("the/model/block_%d/attention/weight", i),
			Bias: "the/model/bias"}
		n := fmt.Sprint(i)
		table.Rows = append(table.Rows, []string{shownName(&e), n, "0000000" + n, n, "operator " + n})
	}
	fitEntries(&table, 60)
	require.Equal(t, []string{"name", "size", "operator"}, table.Rows[0])
	for i, row := range table.Rows[1:] {
		require.Contains(t, row[0], fmt.Sprint("block_", i))
	}
}

// What converters call depthwise convolutions differs in a number between two long parts that are alike.
func TestNamesThatAreShortenedStayDifferent(t *testing.T) {
	table := console.Table{Rows: [][]string{{"name", "size"}}}
	for i := range 12 {
		const kernel = "model_1/model/batch_normalization_v1_%d/FusedBatchNormV3;model_1/model/depthwise_dequantize"
		e := cachefile.Entry{Kernel: fmt.Sprintf(kernel, i),
			Bias: fmt.Sprintf("model_1/model/conv2d_%d/BiasAdd", i)}
		table.Rows = append(table.Rows, []string{shownName(&e), fmt.Sprint(i)})
	}
	fitEntries(&table, 60)
	shown := map[string]bool{}
	for i, row := range table.Rows[1:] {
		shown[row[0]] = true
		require.Contains(t, row[0], fmt.Sprintf("normalization_v1_%d/", i))
		require.LessOrEqual(t, utf8.RuneCountInString(row[0]), table.Room(60))
	}
	require.Len(t, shown, 12)
}

func TestLongNamesLoseTheirMiddleAndKernelsAreToldFromBiases(t *testing.T) {
	require.Equal(t, "model/dense/kernel + bias",
		shownName(&cachefile.Entry{Kernel: "model/dense/kernel", Bias: "model/dense/bias"}))
	require.Equal(t, "model/dense/kernel", shownName(&cachefile.Entry{Kernel: "model/dense/kernel"}))
	table := console.Table{Rows: [][]string{{"name", ""}, {"model/block_1/dense/kernel + bias", ""}}}
	table.Fit(24)
	require.Equal(t, "model/blo…nel + bias", table.Rows[1][0])
}

func TestHelpIsFoldedWhereItsColumnsAre(t *testing.T) {
	require.Equal(t, "Some words that are\nfilled anew.\n\n  term  what it is\n        about\n  other more",
		reflow("Some words that\nare filled\nanew.\n\n  term  what it is\n        about\n  other more\n", 20))
	require.Equal(t, "short", fold("short", 20))
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

func TestHelpFitsItsColumns(t *testing.T) {
	commands := []string{""}
	for _, command := range newRootCommand().Commands() {
		if !command.Hidden && command.Name() != "completion" && command.Name() != "help" { // whose texts are cobra's
			commands = append(commands, command.Name())
		}
	}
	require.Contains(t, commands, "inspect")
	dir := t.TempDir()
	for _, command := range commands {
		for line := range strings.Lines(printed(t, dir, 0, append(strings.Fields(command), "--help")...)) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), unknownWidth, line)
		}
	}
}

func TestTheCommandsThemselvesAreExplained(t *testing.T) {
	text := printed(t, t.TempDir(), 0, "--help")
	for _, want := range []string{"Exits with", "standard error", "inspect", "Examples:"} {
		require.Contains(t, text, want)
	}
}
