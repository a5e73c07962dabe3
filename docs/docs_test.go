package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack"
)

// scratch is a directory for programs that a run of the tests builds once.
var scratch string

// The tests run in the module's root.
func TestMain(m *testing.M) {
	code, err := inTheRoot(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func inTheRoot(m *testing.M) (code int, err error) {
	if err := os.Chdir(".."); err != nil {
		return 0, err
	}
	if scratch, err = os.MkdirTemp("", "xpwc-docs-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	return m.Run(), nil
}

// documents are those for users.
func documents(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md"} {
		matches, err := filepath.Glob(pattern)
		require.NoError(t, err)
		names = append(names, matches...)
	}
	require.Contains(t, names, "README.md")
	return names
}

// allTests returns the names of all tests, whatever system or build they are for.
func allTests(t *testing.T) map[string]bool {
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

// The tables of docs/pull-requests.md name the tests that show each claim.
func TestTheTestsThatTheTablesOfPullRequestsNameExist(t *testing.T) {
	tests := allTests(t)
	require.True(t, tests["TestTheTestsThatTheTablesOfPullRequestsNameExist"])
	text, err := os.ReadFile("docs/pull-requests.md")
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

// The picture of the architecture has a row for each layer, from the top, and in a row cells from the left.
func TestThePictureOfTheArchitectureIsTrue(t *testing.T) {
	source, err := os.ReadFile("docs/architecture.dot")
	require.NoError(t, err)
	type place struct{ row, cell int }
	drawn := map[string]place{}
	row, cell := 0, 0
	for line := range strings.Lines(string(source)) {
		if strings.Contains(line, "[label=") {
			row, cell = row+1, 0
		}
		if strings.Contains(line, "<td") {
			cell++
		}
		for _, m := range regexp.MustCompile(`<b>([\w/]+)</b>`).FindAllStringSubmatch(line, -1) {
			require.NotContains(t, drawn, m[1], "drawn twice")
			drawn[m[1]] = place{row, cell}
		}
	}
	svg, err := os.ReadFile("docs/architecture.svg")
	require.NoError(t, err)
	imports := allImports(t)
	for name, position := range drawn {
		require.Contains(t, imports, name, "it is no package any more")
		require.Regexp(t, `>`+name+`[,<]`, string(svg), "make docs/architecture.svg draws it anew")
		for _, imported := range imports[name] {
			below := drawn[imported]
			require.True(t, below.row > position.row || below.row == position.row && below.cell > position.cell,
				"%s imports %s, which is neither below it nor to its right", name, imported)
		}
	}
	for name := range imports {
		require.Contains(t, drawn, name, "the picture lacks package %s", name)
	}
}

// allImports returns what each package imports of the others, tests apart. Packages go by their directories, the root
// by its module's name.
func allImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			fetched := slices.Contains([]string{"third_party", "bin", "lib", "demo"}, path)
			if path != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || fetched) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		require.NoError(t, err)
		name := "xpwc"
		if dir := filepath.Dir(path); dir != "." {
			name = filepath.ToSlash(dir)
		}
		imports[name] = append([]string{}, imports[name]...)
		for _, i := range file.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			if imported == "xpwc" || strings.HasPrefix(imported, "xpwc/") {
				imports[name] = append(imports[name], strings.TrimPrefix(imported, "xpwc/"))
			}
		}
		return nil
	}))
	return imports
}

// go.work lets a module import what its own go.mod does not have. Nobody else has that file.
func TestEachModuleRequiresWhatItImports(t *testing.T) {
	work, err := os.ReadFile("go.work")
	require.NoError(t, err)
	modules := regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(string(work), -1)
	require.NotEmpty(t, modules)
	for _, m := range modules {
		list := exec.Command("go", "list", "-C", m[1], "-deps", "-test", "./...")
		list.Env = append(os.Environ(), "GOWORK=off")
		out, err := list.CombinedOutput()
		require.NoError(t, err, "%s: %s", m[1], out)
	}
}

func TestTheGuideListsTheKnownDefectsOfXNNPACK(t *testing.T) {
	guide, err := os.ReadFile("docs/guide-go.md")
	require.NoError(t, err)
	for _, d := range xnnpack.KnownDefects() {
		require.Regexp(t, fmt.Sprintf(`(?m)^\| .%.8s. \([^|]*\) \| %s \| %s \| %s \|$`, d.Build,
			regexp.QuoteMeta(d.CPU), regexp.QuoteMeta(d.Node), regexp.QuoteMeta(d.Effect)), string(guide))
	}
}
