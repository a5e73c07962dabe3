package harness

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BackMemory touches and frees memory. Where the machine is a virtual one its host may have taken back what was free,
// and the first to use it again pays for that: up to several seconds, or nothing, as it happens.
func BackMemory(b *testing.B, size int64) {
	b.Helper()
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(b, err)
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE) // as page caches take it; no more than a hint
	for i := 0; i < len(m); i += os.Getpagesize() {
		m[i] = 1
	}
	require.NoError(b, unix.Munmap(m))
}
