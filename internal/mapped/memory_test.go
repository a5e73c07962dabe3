package mapped_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"xpwc/internal/mapped"
)

// readerAt has no size, as a decrypting reader.
type readerAt struct{ io.ReaderAt }

func TestMemoryIsACopyThatIsReadAsAFileIs(t *testing.T) {
	for _, size := range []int{1, page - 1, page, 3*page + 5} {
		original := content(size)
		f, err := mapped.Read("embedded", readerAt{bytes.NewReader(original)}, int64(size))
		require.NoError(t, err)
		original[0]++ // the caller's own
		require.True(t, bytes.Equal(content(size), f.Data()))
		require.Equal(t, "embedded", f.Path())
		require.Zero(t, f.Offset())
		require.Empty(t, f.Stamp(), "only the content identifies it")
		require.EqualValues(t, (size+page-1)/page*page, f.Readable())
		f.Drop(f.Data())
		require.True(t, bytes.Equal(content(size), f.Data()), "there is no file to read it from again")
		part := make([]byte, size)
		n, err := f.ReadAt(part, 0)
		require.NoError(t, err)
		require.Equal(t, content(size), part[:n])
		_, err = f.ReadAt(part, 1)
		require.ErrorIs(t, err, io.EOF)
		changed, err := f.Changed()
		require.NoError(t, err)
		require.False(t, changed)
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		require.Nil(t, f.Data())
		_, err = f.Changed()
		require.ErrorIs(t, err, fs.ErrClosed)
	}
}

func TestMemoryWithoutContentIsEmpty(t *testing.T) {
	f, err := mapped.Read("nothing", bytes.NewReader(nil), 0)
	require.NoError(t, err)
	require.Empty(t, f.Data())
	require.NoError(t, f.Close())
}

func TestContentThatCannotBeReadIsAnErrorWithItsName(t *testing.T) {
	_, err := mapped.Read("cut off", bytes.NewReader(content(page)), int64(page)+1)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "cut off")
	_, err = mapped.Read("negative", bytes.NewReader(nil), -1)
	require.ErrorContains(t, err, "negative")
	_, err = mapped.Read("failing", failing{}, 10)
	require.ErrorIs(t, err, iotest.ErrTimeout)
	require.False(t, errors.Is(err, io.ErrUnexpectedEOF))
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }
