//go:build cgo && unix

package sharing

import (
	"fmt"
	"os"
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
	if setting := os.Getenv(envDescriptors); setting != "" {
		var step string
		var spare int
		_, err := fmt.Sscan(setting, &step, &spare)
		require.NoError(t, err)
		withoutDescriptors(t, step, spare)
		return
	}
	for _, step := range []string{"map", "open", "pack", "save", "close"} {
		for spare := range 4 {
			t.Run(fmt.Sprintf("%s, %d left", step, spare), func(t *testing.T) {
				t.Parallel()
				harness.InProcess(t, "TestWithoutDescriptorsThereAreErrors",
					fmt.Sprintf("%s=%s %d", envDescriptors, step, spare))
			})
		}
	}
}

func withoutDescriptors(t *testing.T, step string, spare int) {
	giveBack := func() {}
	begin := func(next string) {
		if next == step {
			giveBack = useUpDescriptors(t, spare)
		}
	}
	fails := func(err error) bool {
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
		}
		return err != nil
	}
	path := harness.Path(t)
	weights, err := os.Executable() // any file; writing one would already start the poller
	require.NoError(t, err)
	op := optable.Cases()[0]
	plain, err := op.Run(nil, nil, nil)
	require.NoError(t, err)

	if step == "map" {
		begin("map")
		f, err := mapped.Open(weights)
		require.Equal(t, spare == 0, fails(err))
		if err == nil {
			require.NoError(t, f.Close())
		}
	}
	begin("open")
	c, err := xpwc.Open(path, nil)
	if failed := fails(err); failed {
		require.Less(t, spare, 3)
		giveBack()
		c, err = xpwc.Open(path, nil)
		require.NoError(t, err)
	}
	begin("pack")
	require.Equal(t, plain, harness.RunCase(t, c, op))
	begin("save")
	fails(c.Save())
	begin("close")
	fails(c.Close())
	giveBack()

	c = harness.OpenCache(t, path, nil)
	require.Equal(t, plain, harness.RunCase(t, c, op))
	require.NoError(t, c.Save())
	require.Positive(t, c.Stats().Entries, "what could not be persisted then is now")
}

// useUpDescriptors leaves this many, until what it returns is called.
func useUpDescriptors(t *testing.T, spare int) (giveBack func()) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = 64
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	var occupied []int
	for {
		descriptor, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
			break
		}
		occupied = append(occupied, descriptor)
	}
	give := func(n int) {
		for range n {
			require.NoError(t, syscall.Close(occupied[len(occupied)-1]))
			occupied = occupied[:len(occupied)-1]
		}
	}
	give(spare)
	return func() { give(len(occupied)) }
}
