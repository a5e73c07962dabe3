package mapped_test

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// resident is how many bytes of a mapped file this process has in its memory.
func resident(t *testing.T, path string) int {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	resident := false
	for line := range bytes.Lines(smaps) {
		fields := bytes.Fields(line)
		if bytes.HasSuffix(bytes.TrimSpace(line), []byte(path)) {
			resident = true
		} else if resident && len(fields) == 3 && string(fields[0]) == "Rss:" {
			n, err := strconv.Atoi(string(fields[1]))
			require.NoError(t, err)
			return n << 10
		}
	}
	require.True(t, resident, "%s is not mapped", path)
	return 0
}

// Each tensor of a file is dropped by itself, and the pages that its neighbours share with it too.
func TestDroppedPartsAreGivenBackTogether(t *testing.T) {
	const pages, parts = 19, 1 << 10
	path := write(t, content(pages*page))
	f := open(t, path)
	require.True(t, bytes.Equal(content(pages*page), f.Data()))
	size := pages * page / parts
	for i := range parts {
		require.Equal(t, pages*page, resident(t, path))
		f.Drop(f.Data()[(parts-1-i)*size:][:size])
	}
	require.Less(t, resident(t, path), 2*page)
	require.True(t, bytes.Equal(content(pages*page), f.Data()))
	require.NoError(t, f.Close())
}

func TestALargePartIsGivenBackAtOnce(t *testing.T) {
	const size = 6 << 20
	path := write(t, content(size))
	f := open(t, path)
	require.True(t, bytes.Equal(content(size), f.Data()))
	f.Drop(f.Data()[page:])
	require.LessOrEqual(t, resident(t, path), page)
	require.NoError(t, f.Close())
}

func TestOnlyPagesThatLieEntirelyInARangeAreDropped(t *testing.T) {
	const pages = 19 // too few for a huge page, which goes as a whole, also where pages of 64 KiB are emulated
	path := write(t, content(pages*page))
	for _, c := range []struct{ start, end, resident int }{
		{0, pages * page, 0},
		{page, 2 * page, pages - 1},
		{1, pages * page, 1},
		{0, pages*page - 1, 1},
		{page - 1, (pages-1)*page + 1, 2},
		{page + 1, 3*page - 1, pages},
		{page + 1, page + 2, pages},
		{3 * page, 3 * page, pages},
	} {
		f := open(t, path)
		require.True(t, bytes.Equal(content(pages*page), f.Data()))
		require.Equal(t, pages*page, resident(t, path))
		for range 1 << 10 { // parts wait until they are so many
			f.Drop(f.Data()[c.start:c.end])
		}
		require.Equal(t, c.resident*page, resident(t, path), "%d to %d", c.start, c.end)
		require.NoError(t, f.Close())
	}
}
