//go:build linux && cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// The hosts again, compiled with sanitizers. Nothing is suppressed.

// A sanitizer is how host and library are built with one, and what it must find.
type sanitizer struct {
	name     string
	host     []string // flags of the host's compiler
	library  string   // SANITIZE= of make lib
	programs []string
	mistakes []string // of sanitized.c
	report   string
}

var sanitizers = []sanitizer{
	{
		// Its leak check ignores memory that Go refers to.
		name:     "AddressSanitizer and UndefinedBehaviorSanitizer",
		host:     []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all"},
		library:  "address",
		programs: append([]string{"threads.cc", "last_error.c"}, onOneThread...),
		mistakes: []string{"overflow"},
		report:   `ERROR: AddressSanitizer: (heap-buffer-overflow|unknown-crash)`,
	},
	{
		// Go's heap is unknown to it: what only Go refers to counts as lost. When all handles are closed there must be
		// nothing.
		name:     "LeakSanitizer",
		host:     []string{"-fsanitize=leak"},
		programs: append([]string{"threads.cc", "last_error.c"}, onOneThread...),
		mistakes: []string{"leak"},
		report:   `ERROR: LeakSanitizer: detected memory leaks`,
	},
	{
		name:     "ThreadSanitizer",
		host:     []string{"-fsanitize=thread"},
		library:  "thread",
		programs: []string{"threads.cc", "last_error.c", "maintenance.c", "watching.c", "warm.c"},
		mistakes: []string{"race"},
		report:   `WARNING: ThreadSanitizer: data race`,
	},
}

var onOneThread = []string{
	"warm.c", "misuse.c", "handles.c", "lifecycle.c", "failing_callbacks.c", "reentrant.c", "options.c",
	"maintenance.c", "watching.c", "stamp.c", "changed.c",
}

// program returns a source built with the sanitizer. It skips the test where the sanitizer does not work.
func (s sanitizer) program(t *testing.T, source string) program {
	t.Helper()
	args := append(append([]string{"testdata/empty.c"}, s.host...), settings(t, "CGO_LDFLAGS")...)
	problem := buildOnce(t, "problem with "+s.name, func(path string) error {
		program := path + " of"
		err := tool("", nil, "gcc", append(args, "-o", program)...)
		if err == nil {
			err = tool("", nil, program)
		}
		return os.WriteFile(path, fmt.Append(nil, err), 0o600)
	})
	reason, err := os.ReadFile(problem)
	require.NoError(t, err)
	if string(reason) != fmt.Sprint(error(nil)) {
		t.Skipf("%s does not work here: %s", s.name, reason)
	}
	p := program{source: source, compiler: compilersFor(source)[0], linkage: static, flags: s.host}
	if s.library != "" {
		p.lib = library(t, s.library, "SANITIZE="+s.library)
	}
	return p
}

func TestSanitizersFindNothing(t *testing.T) {
	t.Parallel()
	for _, s := range testkit.Drawn(t, sanitizers) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, source := range s.programs {
				t.Run(source, func(t *testing.T) {
					t.Parallel()
					p := s.program(t, source)
					switch dir := t.TempDir(); source {
					case "warm.c":
						path := filepath.Join(dir, "cache")
						p.run(t, nil, path, "cold", "callbacks")
						p.run(t, nil, path, "warm", "table")
					case "threads.cc":
						p.run(t, nil, dir, "3")
					default:
						p.run(t, nil, dir)
					}
				})
			}
			for _, mistake := range s.mistakes {
				t.Run("but "+mistake, func(t *testing.T) {
					t.Parallel()
					p := s.program(t, "sanitized.c")
					p.run(t, nil, "nothing")
					out, err := p.try(t, nil, mistake)
					require.Error(t, err, out)
					require.Regexp(t, s.report, out)
				})
			}
		})
	}
}
