package osdisk

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestADeskHasWhatWasWrittenWhereverItIs(t *testing.T) {
	private := func(units int) []byte {
		b, err := unix.Mmap(-1, 0, units*DeskUnit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
		return b
	}
	of := func(n byte, b []byte) []byte { return slices.Repeat([]byte{n}, len(b)) }
	var d Desk
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
	d.Leave()
	move(first)
	require.Equal(t, of(0, first), first, "the desk has other memory")
	require.Equal(t, of(8, larger), larger, "it is its own")
}

func TestMemoryIsItsOwnersWhereTheDeskCannotBeMoved(t *testing.T) {
	b, err := unix.Mmap(-1, 0, 3*DeskUnit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(b)) }()
	gone, other := b[:DeskUnit], b[DeskUnit:]
	var d Desk
	_, err = d.Move(gone)
	require.NoError(t, err)
	require.NoError(t, unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(gone)), DeskUnit))
	moved, err := d.Move(other)
	require.NoError(t, err)
	require.False(t, moved)
	copy(other, slices.Repeat([]byte{7}, len(other)))
	moved, err = d.Move(other)
	require.NoError(t, err)
	require.True(t, moved, "it begins anew")
	require.EqualValues(t, 7, other[0])
}
