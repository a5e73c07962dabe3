package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Function words are no names: a name is a noun or a verb of the field.
var functionWords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`is of at by to as like there now was known has does one other else this that who
		whom what why when where how which from into with within beside among under over before after again still yet
		only all any none some more most least both each same equal such so if or and but not no yes may must can could
		would left given made kept found taken there here these those its it he she they them me my own`) {
		words[w] = true
	}
	return words
}()

// habits are phrases that readers stumble on, such as relatives without a noun and causatives.
var habits = regexp.MustCompile(`\b(?:of|for|with|to|in|from|than|but for|into|over) (?:what|who|whom|whoever)\b|` +
	`\b(?:has|have) (?:the |a |an |its |all |each |it |them )(?:\w+ ){0,2}(?:computed|read|asked|done|committed|` +
	`looked|packed|known|made|written|named|verified|brought|found|decide|believed)\b|` +
	`\b(?:say|says|said)\b|(?:^|[.;:] )(?:Who|Whoever)\b|\bthose (?:that|of|who)\b|\bbeside\b|\bbut for\b`)

// Lower these figures as the tree gets better; never raise them.
const (
	oddNamesPer1000     = 1   // of declared names, in code and in tests
	habitsPer1000       = 0.7 // of words, in comments and documents
	oddNamesPer1000Tool = 1   // likewise in cmd/xpwc, internal/bench, internal/console, internal/fd and internal/output
	habitsPer1000Tool   = 1
)

var mended = regexp.MustCompile(`^(cmd/xpwc|internal/(bench|console|fd|output))/`)

type language struct{ names, odd, words, habits int }

func (l *language) countProse(text string) {
	l.words += len(strings.Fields(text))
	l.habits += len(habits.FindAllString(text, -1))
}

func (l *language) countNames(f *ast.File) {
	count := func(names ...*ast.Ident) {
		for _, n := range names {
			if n == nil || n.Name == "_" {
				continue
			}
			l.names++
			if functionWords[strings.ToLower(n.Name)] {
				l.odd++
			}
		}
	}
	expressions := func(list ...ast.Expr) {
		for _, e := range list {
			if name, ok := e.(*ast.Ident); ok {
				count(name)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				expressions(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				expressions(n.Key, n.Value)
			}
		case *ast.ValueSpec:
			count(n.Names...)
		case *ast.Field:
			count(n.Names...)
		case *ast.FuncDecl:
			count(n.Name)
		case *ast.TypeSpec:
			count(n.Name)
		}
		return true
	})
}

var cComment = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)`)

// inFile matches the name of something and of the file that declares it, as in "decide in decide.go".
var inFile = regexp.MustCompile(`\b([a-z]+[A-Z]\w+) \(?in ([a-z_0-9]+\.go)\b`)

// TestTheTreeSpeaksTheFieldsLanguage counts names that are function words, and phrases that readers stumble on.
func TestTheTreeSpeaksTheFieldsLanguage(t *testing.T) {
	var whole, tool language
	sources, stale := map[string]string{}, map[string][2]string{}
	root := os.DirFS(".") // TestMain changes to the root of the tree
	require.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "testdata", "third_party", "bin", "lib", "demo", "dist", "generated":
				return fs.SkipDir
			}
			return nil
		}
		counts := []*language{&whole}
		if mended.MatchString(path) {
			counts = append(counts, &tool)
		}
		content := func() string {
			b, err := fs.ReadFile(root, path)
			require.NoError(t, err)
			return string(b)
		}
		var prose strings.Builder
		switch filepath.Ext(path) {
		case ".go":
			text := content()
			f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
			require.NoError(t, err)
			for _, c := range f.Comments {
				prose.WriteString(c.Text() + "\n")
			}
			for _, m := range inFile.FindAllStringSubmatch(prose.String(), -1) {
				stale[path+": "+m[0]] = [2]string{m[1], m[2]}
			}
			sources[filepath.Base(path)] += text
			for _, l := range counts {
				l.countNames(f)
			}
		case ".md":
			prose.WriteString(content())
		case ".c", ".h", ".cc", ".hpp", ".cpp":
			for _, m := range cComment.FindAllString(content(), -1) {
				prose.WriteString(strings.TrimPrefix(m, "//") + "\n")
			}
		}
		for _, l := range counts {
			l.countProse(prose.String())
		}
		return nil
	}))
	for comment, m := range stale {
		require.Regexp(t, `\b`+m[0]+`\b`, sources[m[1]], "%s: no such name there", comment)
	}
	for _, c := range []struct {
		name          string
		counted       language
		names, habits float64
	}{
		{"the whole tree", whole, oddNamesPer1000, habitsPer1000},
		{"the tool and its packages", tool, oddNamesPer1000Tool, habitsPer1000Tool},
	} {
		l := c.counted
		require.NotZero(t, l.names*l.words, c.name)
		names, phrases := 1000*float64(l.odd)/float64(l.names), 1000*float64(l.habits)/float64(l.words)
		t.Logf("%s: %.1f of 1000 names are function words, %.1f habits in 1000 words", c.name, names, phrases)
		require.LessOrEqual(t, names, c.names, "%s: names that are function words", c.name)
		require.LessOrEqual(t, phrases, c.habits, "%s: phrases", c.name)
	}
}

// TestTheLanguageTestCountsWhatItNames shows that the counters see each kind.
func TestTheLanguageTestCountsWhatItNames(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "a.go",
		"package a\nfunc at(to int) { from, b := 1, 2; _, _ = from, b }", 0)
	require.NoError(t, err)
	var l language
	l.countNames(f)
	require.Equal(t, language{names: 4, odd: 3}, l)
	for _, text := range []string{"copies of what", "it has the tensors read", "the file says so", "those that differ",
		"beside it",
		"all but for one"} {
		l = language{}
		l.countProse(text)
		require.Equal(t, 1, l.habits, text)
	}
	require.NotEmpty(t, inFile.FindStringSubmatch("see hostedKernels in kernels_hosted.go"))
}
