//go:build linux && cgo

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// The tests are hosts: C and C++ programs of testdata, compiled against an installed tree of the library and run. How
// XNNPACK is found is in the environment (make env), as it is for this test's own build.

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// built is what a run of the tests has built: each thing once.
var built struct {
	sync.Mutex
	dir  string
	once map[string]func() error
}

// buildOnce returns a path of that name, which make makes if nothing else has.
func buildOnce(t *testing.T, name string, build func(path string) error) string {
	t.Helper()
	built.Lock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "xpwc-capi-")
		require.NoError(t, err)
		built.dir, built.once = dir, map[string]func() error{}
	}
	path := filepath.Join(built.dir, name)
	if built.once[name] == nil {
		built.once[name] = sync.OnceValue(func() error { return build(path) })
	}
	once := built.once[name]
	built.Unlock()
	require.NoError(t, once())
	return path
}

// command returns what runs a tool with a time limit, in the environment of make env with changes.
func command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		// MAKE... and MFLAGS are of a make that runs the tests.
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 10 * time.Second // children of a tool may keep its output open
	return cmd
}

// tool runs a tool. Its output is in the error.
func tool(dir string, env []string, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if out, err := command(ctx, dir, env, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

const prefix = "usr"

// installed returns the root of a tree that make install has made, with PREFIX=/usr.
func installed(t *testing.T) string {
	t.Helper()
	return buildOnce(t, "installed", func(path string) error {
		return tool("..", nil, "make", "-s", "install", "DESTDIR="+path, "PREFIX=/"+prefix)
	})
}

// settings returns flags of make env.
func settings(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// A linkage is how a program gets the library.
type linkage string

const (
	static   linkage = "static"
	shared   linkage = "shared"
	unlinked linkage = "unlinked" // the program loads it with dlopen
)

var linkages = []linkage{static, shared}

// flags returns what links a program with the library in a directory and with the host's XNNPACK.
func (l linkage) flags(t *testing.T, lib string) []string {
	t.Helper()
	var flags []string
	libraries := xnnpackLibraries
	switch l {
	case static:
		flags = []string{filepath.Join(lib, "libxpwc.a")}
	case shared:
		flags = []string{"-L" + lib, "-lxpwc", "-Wl,-rpath," + lib}
	case unlinked: // what the library wants of XNNPACK's must be there, in the program where XNNPACK is static
		flags = []string{"-Wl,--no-as-needed,--export-dynamic"}
		libraries = slices.Concat([]string{"-Wl,--whole-archive"}, libraries, []string{"-Wl,--no-whole-archive"})
	}
	return slices.Concat(flags, settings(t, "CGO_LDFLAGS"), libraries, []string{"-ldl", "-pthread"})
}

// xnnpackLibraries are the host's.
var xnnpackLibraries = []string{"-lXNNPACK", "-lpthreadpool", "-lcpuinfo", "-lm"}

// A compiler compiles C99 or C++17.
type compiler struct {
	command string
	flags   []string
}

var compilers = []compiler{
	{"gcc", []string{"-x", "c", "-std=c99"}},
	{"g++", []string{"-x", "c++", "-std=c++17"}},
	{"clang", []string{"-x", "c", "-std=c99"}},
	{"clang++", []string{"-x", "c++", "-std=c++17"}},
}

var warnings = []string{"-Wall", "-Wextra", "-Werror", "-pedantic"}

// missing reports whether a compiler is not installed. gcc and g++ must be.
func (c compiler) missing() bool {
	_, err := exec.LookPath(c.command)
	return err != nil && strings.HasPrefix(c.command, "clang")
}

// compilersFor returns the installed compilers of a source's language.
func compilersFor(source string) []compiler {
	var list []compiler
	for _, c := range compilers {
		if cxx := strings.HasSuffix(c.command, "++"); cxx == (filepath.Ext(source) == ".cc") && !c.missing() {
			list = append(list, c)
		}
	}
	return list
}

// A program is a source of testdata and how it is built.
type program struct {
	source   string
	compiler compiler
	linkage  linkage
	flags    []string // more of the compiler's, or another source
	lib      string   // the directory of another library than the installed one
}

func (p program) String() string {
	name := strings.Join([]string{p.source, p.compiler.command, string(p.linkage)}, "-")
	return strings.Join(append([]string{name}, p.flags...), "")
}

// build compiles the program, the first time, and returns its path.
func (p program) build(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(installed(t), prefix)
	lib := p.lib
	if lib == "" {
		lib = filepath.Join(tree, "lib")
	}
	return buildOnce(t, strings.ReplaceAll(p.String()+p.lib, "/", "_"), func(path string) error {
		args := append([]string{"-O1", "-g", "-o", path}, warnings...)
		args = append(append(args, p.compiler.flags...), p.flags...)
		args = append(args, "-I"+filepath.Join(tree, "include"))
		args = append(append(args, settings(t, "CGO_CFLAGS")...), filepath.Join("testdata", p.source), "-x", "none")
		return tool("", nil, p.compiler.command, append(args, p.linkage.flags(t, lib)...)...)
	})
}

// timeLimit is far more than any program takes, also on a machine with many times as much to do as it has processors.
const timeLimit = 15 * time.Minute

// run runs the program in an empty directory and returns what it printed. It must end well.
func (p program) run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, err := p.try(t, env, args...)
	require.NoError(t, err, "%s %s\n%s", p, strings.Join(args, " "), out)
	return out
}

// try runs the program in an empty directory, which it must leave empty, and returns all that it printed.
func (p program) try(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	dir := t.TempDir()
	cmd := command(ctx, dir, env, p.build(t), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it hung: %w", err)
	}
	remaining, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	require.Empty(t, remaining, "left in its working directory")
	return out.String(), err
}

// eachWay runs a test for a source of testdata with all compilers, static and shared, or with -short one of these.
func eachWay(t *testing.T, source string, test func(*testing.T, program)) {
	t.Helper()
	for _, c := range compilersFor(source) {
		for _, l := range testkit.Drawn(t, linkages) {
			p := program{source: source, compiler: c, linkage: l}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}
