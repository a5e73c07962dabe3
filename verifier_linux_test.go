//go:build cgo

package xpwc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// Nothing else in this process is to have less of the processor, or of the disk, than what verifies payloads.
func TestPayloadsAreHashedAtTheLowestPriority(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := make([]byte, 64<<20)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	d, err := osdisk.Files{}.Open(path, false)
	require.NoError(t, err)
	r, err := d.Reader()
	require.NoError(t, err)
	var stop int32
	done := make(chan error)
	go func() { done <- r.Hash([]store.Payload{{Size: uint64(len(content))}}, &stop) }()
	found := false
	for ended := false; !ended; {
		select {
		case err := <-done:
			require.NoError(t, err)
			ended = true
		default:
			found = found || hasQuietThread(t)
		}
	}
	require.True(t, found)
	require.NoError(t, r.Close())
	require.NoError(t, d.Close())
}

// hasQuietThread reports whether a thread of this process is of the idle classes of processors and of I/O.
func hasQuietThread(t *testing.T) bool {
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, task := range tasks {
		stat, err := os.ReadFile("/proc/self/task/" + task.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		const policy = 41 - 3 // proc_pid_stat(5), counted from behind the name
		id, err := strconv.Atoi(task.Name())
		require.NoError(t, err)
		const whoIsProcess, idleClass, classShift = 1, 3, 13 // ioprio_get(2)
		priority, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, whoIsProcess, uintptr(id), 0)
		if strings.Fields(rest)[policy] == strconv.Itoa(unix.SCHED_IDLE) && priority>>classShift == idleClass {
			return true
		}
	}
	return false
}
