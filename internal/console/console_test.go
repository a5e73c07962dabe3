package console

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTablesAreAligned(t *testing.T) {
	var tab Table
	tab.Row("", "no cache", "warm")
	tab.Row("a long name", "1.00 ms", "20.0 ms")
	tab.Row("b", Blank, "3")
	var out strings.Builder
	require.NoError(t, tab.Print(&out))
	width := 0
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if i > 0 {
			require.Len(t, line, width)
		}
		width = len(line)
	}
}

// Names come out of files that anybody may have written.
func TestNamesDoNothingToATerminal(t *testing.T) {
	require.Equal(t, "a?[31mb?c é", Printable("a\x1b[31mb\nc é"))
	require.Equal(t, "?", Printable("\xff"))
	require.Equal(t, "abcd", Shorten("abcd", 4))
	require.Equal(t, "a…de", Shorten("abcde", 4))
}

func TestTablesFitTheTerminal(t *testing.T) {
	name := strings.Repeat("block/attention/", 20)
	for width, want := range map[int]int{0: len(name), 100: 100, 10: 3 + 20 + 3 + 8 + 3 + 3} {
		tab := Table{[][]string{{"name", "size", ""}, {name, "20.0 MiB", "tie"}}}
		tab.Fit(width)
		var out strings.Builder
		require.NoError(t, tab.Print(&out))
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if width == 0 {
				require.Greater(t, len(line), want)
				continue
			}
			require.LessOrEqual(t, utf8.RuneCountInString(line), want)
		}
	}
}

func TestShortenedNamesBeginAndEndWithWholeCharacters(t *testing.T) {
	many := strings.Repeat("é", 40)
	names := []string{many + "à1" + many[:20], many + "á2" + many[:20]}
	for width := 20; width < 40; width++ {
		short := shortenAll(names, width)
		require.NotEqual(t, short[0], short[1])
		for _, name := range short {
			require.True(t, utf8.ValidString(name), "%q", name)
			require.LessOrEqual(t, utf8.RuneCountInString(name), width)
		}
	}
}
