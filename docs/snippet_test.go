//go:build linux && cgo

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests run in the module's root.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A snippet is a block of code in a document.
type snippet struct {
	place    string // the document and the line
	language string
	text     string
}

// snippets returns the blocks of code in a document.
func snippets(document, text string) (found []snippet) {
	var s *snippet
	number := 0
	for line := range strings.Lines(text) {
		number++
		switch fence, is := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case is && s == nil:
			s = &snippet{place: fmt.Sprintf("%s:%d", document, number), language: fence}
		case is:
			found = append(found, *s)
			s = nil
		case s != nil:
			s.text += line
		}
	}
	return found
}

// saying runs a command and returns what it prints with its error.
func saying(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// tool returns the path of the tool.
func tool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "xpwc")
	require.NoError(t, saying(exec.Command("go", "build", "-o", path, "./cmd/xpwc")))
	return path
}
