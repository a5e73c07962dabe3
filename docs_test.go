package xpwc

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testsOfThisModule returns the names of all its tests, whatever system or build they are for.
func testsOfThisModule(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (d.Name()[0] == '.' || d.Name() == "third_party"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			tests[m[1]] = true
		}
		return err
	}))
	return tests
}

// The tables of docs/sharing.md say which test shows what.
func TestTheTestsThatTheSharingTablesNameExist(t *testing.T) {
	tests := testsOfThisModule(t)
	require.True(t, tests["TestTheTestsThatTheSharingTablesNameExist"])
	text, err := os.ReadFile("docs/sharing.md")
	require.NoError(t, err)
	name := regexp.MustCompile("`(Test\\w*)`")
	rows := 0
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(line, "|")
		if len(columns) != 5 || strings.Contains(line, "shown by") || strings.Contains(line, "---") {
			require.NotRegexp(t, name, line, "outside the tables")
			continue
		}
		named := name.FindAllStringSubmatch(columns[3], -1)
		require.NotEmpty(t, named, "no test shows this: %s", line)
		for _, n := range named {
			require.True(t, tests[n[1]], "%s is no test", n[1])
		}
		rows++
	}
	require.Greater(t, rows, 20)
}
