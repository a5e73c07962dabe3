package mapped_test

import (
	"bytes"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/mapped"
)

func TestASectionIsAPartOfTheFile(t *testing.T) {
	const size = 100
	path := write(t, content(3*page))
	for _, offset := range []int{0, 1, page - 1, page, 2*page + 7} {
		f, err := mapped.OpenSection(path, mapped.Section{Offset: int64(offset), Size: size})
		require.NoError(t, err)
		want := content(3 * page)[offset:][:size]
		require.True(t, bytes.Equal(want, f.Data()))
		require.EqualValues(t, offset, f.Offset())
		require.EqualValues(t, 3*page-offset, f.Readable())
		read := make([]byte, size)
		n, err := f.ReadAt(read, 0)
		require.NoError(t, err)
		require.Equal(t, size, n)
		require.Equal(t, want, read)
		n, err = f.ReadAt(read, size-10)
		require.ErrorIs(t, err, io.EOF, "the file goes on, the section does not")
		require.Equal(t, 10, n)
		f.Drop(f.Data())
		require.True(t, bytes.Equal(want, f.Data()))
		require.NoError(t, f.Close())
	}
	for _, s := range []mapped.Section{
		{Offset: -1, Size: 1}, {Offset: 1, Size: -1}, {Offset: int64(3*page) + 1}, {Offset: 1, Size: int64(3 * page)},
		{Offset: math.MaxInt64, Size: math.MaxInt64},
	} {
		_, err := mapped.OpenSection(path, s)
		require.ErrorIs(t, err, mapped.ErrOutside, "%+v", s)
	}
}
