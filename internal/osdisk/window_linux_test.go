package osdisk

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/tests/testkit"
)

func TestAWindowHasWhatWasWrittenWhereverItIs(t *testing.T) {
	private := func(units int) []byte {
		b, err := unix.Mmap(-1, 0, units*WindowUnit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
		return b
	}
	of := func(n byte, b []byte) []byte { return slices.Repeat([]byte{n}, len(b)) }
	var d Window
	move := func(to []byte) {
		moved, err := d.Move(to)
		require.NoError(t, err)
		require.True(t, moved)
	}
	first, larger, smaller := private(2), private(5), private(1)
	move(first)
	copy(first, of(7, first))
	move(larger)
	require.Equal(t, of(7, first), larger[:len(first)])
	require.Equal(t, of(0, larger[len(first):]), larger[len(first):])
	require.Equal(t, of(0, first), first)
	copy(larger, of(8, larger))
	move(smaller)
	require.Equal(t, of(8, smaller), smaller)
	move(larger)
	require.Equal(t, of(8, larger), larger, "what others had no room for has stayed")
	move(larger)
	require.Equal(t, of(8, larger), larger)
	d.Detach()
	move(first)
	require.Equal(t, of(0, first), first, "the window has other memory")
	require.Equal(t, of(8, larger), larger, "it is its own")
}

func TestMemoryIsItsOwnersWhereTheWindowCannotBeMoved(t *testing.T) {
	b, err := unix.Mmap(-1, 0, 3*WindowUnit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(b)) }()
	gone, other := b[:WindowUnit], b[WindowUnit:]
	var d Window
	_, err = d.Move(gone)
	require.NoError(t, err)
	require.NoError(t, unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(gone)), WindowUnit))
	moved, err := d.Move(other)
	require.NoError(t, err)
	require.False(t, moved)
	copy(other, slices.Repeat([]byte{7}, len(other)))
	moved, err = d.Move(other)
	require.NoError(t, err)
	require.True(t, moved, "it begins anew")
	require.EqualValues(t, 7, other[0])
}

// A process that may have no more mappings cannot move the window. What is there to be moved to is as good as before.
func TestWithoutFurtherMappingsMemoryIsItsOwners(t *testing.T) {
	const inProcess = "XPWC_TEST_NO_MAPPINGS"
	said, err := os.ReadFile("/proc/sys/vm/max_map_count")
	require.NoError(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(said)))
	require.NoError(t, err)
	if most > 1<<17 {
		t.Skipf("a process may have %d mappings, which takes long", most)
	}
	if os.Getenv(inProcess) == "" {
		cmd := testkit.Command("-test.run=^" + t.Name() + "$")
		cmd.Env = append(os.Environ(), inProcess+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	private := func(size, protection int) []byte {
		b, err := unix.Mmap(-1, 0, size, protection, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		return b
	}
	page := os.Getpagesize()
	first := private(WindowUnit, unix.PROT_READ|unix.PROT_WRITE)
	to := private(3*WindowUnit, unix.PROT_READ|unix.PROT_WRITE)[WindowUnit:][:WindowUnit]
	many := private((most+2)*page, unix.PROT_NONE)
	var d Window
	_, err = d.Move(first)
	require.NoError(t, err)
	for at := page; err == nil; at += 2 * page { // each has what is around it be another mapping
		err = unix.Mprotect(many[at:][:page], unix.PROT_READ)
	}
	require.ErrorIs(t, err, unix.ENOMEM)
	moved, err := d.Move(to)
	require.NoError(t, unix.Munmap(many)) // the test goes on
	require.NoError(t, err)
	require.False(t, moved)
	copy(to, slices.Repeat([]byte{7}, len(to)))
	require.EqualValues(t, 7, to[WindowUnit-1])
}
