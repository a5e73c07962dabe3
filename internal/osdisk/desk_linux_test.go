package osdisk

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestADeskHasWhatWasWrittenWhereverItIs(t *testing.T) {
	page := os.Getpagesize()
	private := func(pages int) []byte {
		b, err := unix.Mmap(-1, 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
		return b
	}
	var d Desk
	move := func(to []byte) {
		moved, err := d.Move(to)
		require.NoError(t, err)
		require.True(t, moved)
	}
	first, larger, smaller := private(2), private(5), private(1)
	move(first)
	copy(first, slices.Repeat([]byte{7}, len(first)))
	move(larger)
	require.Equal(t, slices.Repeat([]byte{7}, len(first)), larger[:len(first)])
	require.Equal(t, make([]byte, len(larger)-len(first)), larger[len(first):])
	larger[0] = 8
	move(smaller)
	require.EqualValues(t, 8, smaller[0])
	require.NoError(t, d.Leave(smaller))
	require.Zero(t, smaller[0])
	smaller[0] = 9
	move(first)
	require.EqualValues(t, 8, first[0])
	require.EqualValues(t, 9, smaller[0], "it is its own")
	move(smaller)
	require.NoError(t, d.Close())
	require.EqualValues(t, 8, smaller[0], "it is there until it is unmapped")
	require.NoError(t, d.Close(), "closing twice is harmless")
}
