//go:build cgo

package identity

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/harness"
)

const envLimit = "XPWC_TEST_LIMIT" // set in the process with the limit

// The system sends SIGXFSZ to a process that exceeds the limit, which ends it.
func TestALimitOnFilesDoesNotEndAFirstStart(t *testing.T) {
	if os.Getenv(envLimit) == "" {
		harness.StartChild(t, t.Name(), nil, envLimit+"=1").Pass(t)
		return
	}
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	limit.Cur = 64 << 10
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	sent := make(chan os.Signal, 1)
	signal.Notify(sent, syscall.SIGXFSZ)
	data := &refilled{tensors: large.Weights(1), filled: map[string]int{}}
	want := large.Plain(t, data.tensors)
	require.Equal(t, want, large.Run(t, harness.OpenCache(t, "", nil), data))
	require.Equal(t, want, large.Run(t, harness.OpenCache(t, harness.Path(t), nil), data))
	require.Empty(t, sent)
}
