//go:build cgo && unix

package sharing

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
)

const envDescriptors = "XPWC_TEST_DESCRIPTORS" // before what, and how many are left

// Whatever a process opens without descriptors fails or goes into private memory; Go's runtime does not end it.
func TestWithoutDescriptorsThereAreErrors(t *testing.T) {
	if at := os.Getenv(envDescriptors); at != "" {
		var before string
		var left int
		_, err := fmt.Sscan(at, &before, &left)
		require.NoError(t, err)
		withoutDescriptors(t, before, left)
		return
	}
	for _, before := range []string{"map", "open", "pack", "save", "close"} {
		for left := range 4 {
			t.Run(fmt.Sprintf("%s, %d left", before, left), func(t *testing.T) {
				t.Parallel()
				harness.InProcess(t, "TestWithoutDescriptorsThereAreErrors",
					fmt.Sprintf("%s=%s %d", envDescriptors, before, left))
			})
		}
	}
}

func withoutDescriptors(t *testing.T, before string, left int) {
	giveBack := func() {}
	comeTo := func(what string) {
		if what == before {
			giveBack = useUpDescriptors(t, left)
		}
	}
	fails := func(err error) bool {
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
		}
		return err != nil
	}
	path := filepath.Join(t.TempDir(), "cache")
	weights, err := os.Executable() // any file; writing one would already start the poller
	require.NoError(t, err)
	op := optable.Cases()[0]
	plain, err := op.Run(nil, nil, nil)
	require.NoError(t, err)

	if before == "map" {
		comeTo("map")
		f, err := mapped.Open(weights)
		require.Equal(t, left == 0, fails(err))
		if err == nil {
			require.NoError(t, f.Close())
		}
	}
	comeTo("open")
	c, err := xpwc.Open(path, nil)
	if failed := fails(err); failed {
		require.Less(t, left, 3)
		giveBack()
		c, err = xpwc.Open(path, nil)
		require.NoError(t, err)
	}
	comeTo("pack")
	require.Equal(t, plain, harness.RunCase(t, c, op))
	comeTo("save")
	fails(c.Save())
	comeTo("close")
	fails(c.Close())
	giveBack()

	c = harness.OpenCache(t, path, nil)
	require.Equal(t, plain, harness.RunCase(t, c, op))
	require.NoError(t, c.Save())
	require.Positive(t, c.Stats().Entries, "what could not be persisted then is now")
}

// useUpDescriptors leaves this many, until what it returns is called.
func useUpDescriptors(t *testing.T, left int) (giveBack func()) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = 64
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	var taken []int
	for {
		descriptor, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			break
		}
		taken = append(taken, descriptor)
	}
	give := func(n int) {
		for range n {
			require.NoError(t, syscall.Close(taken[len(taken)-1]))
			taken = taken[:len(taken)-1]
		}
	}
	give(left)
	return func() { give(len(taken)) }
}
