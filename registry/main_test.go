//go:build cgo

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/output"
	"xpwc/internal/tests/testkit"
	"xpwc/registry"
	"xpwc/xnnpack"
)

// Tests that need a process of their own, or another CPU, run this test binary again, with these variables.
const (
	envCPU   = "XPWC_TEST_CPU"   // the CPU level XNNPACK is limited to
	envCache = "XPWC_TEST_CACHE" // the cache file to use
	envModel = "XPWC_TEST_MODEL" // the model to run
	envNode  = "XPWC_TEST_NODE"  // set in such a process
)

func TestMain(m *testing.M) {
	if level := os.Getenv(envCPU); level != "" {
		if err := xnnpack.LimitCPU(level); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// node is a command that runs one test of this binary as another machine would, with a CPU of that level.
func node(level, test string, env ...string) *exec.Cmd {
	cmd := testkit.Command("-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Env = append(append(os.Environ(), envNode+"=1", envCPU+"="+level), env...)
	return cmd
}

func runNode(t *testing.T, level, test string, env ...string) {
	t.Helper()
	out, err := node(level, test, env...).CombinedOutput()
	require.NoError(t, err, "%s on %s:\n%s", test, level, out)
	require.Contains(t, string(out), "--- PASS: "+test)
}

// errKept ends a write of which nothing is to be put at the path.
var errKept = errors.New("what was there is kept")

// pullAt pulls a layout to a path, as the tool does.
func pullAt(ctx context.Context, ref string, layout registry.Fingerprint, path string, o *registry.Options) (
	*registry.Pulled, error) {
	return putAt(path, func(w *os.File) (*registry.Pulled, error) { return registry.Pull(ctx, ref, layout, w, o) })
}

func putAt(path string, pull func(w *os.File) (*registry.Pulled, error)) (pulled *registry.Pulled, err error) {
	err = output.Write(path, func(w *os.File) error {
		if pulled, err = pull(w); err == nil && pulled.UpToDate {
			return errKept
		}
		return err
	})
	if errors.Is(err, errKept) {
		err = nil
	}
	return pulled, err
}
