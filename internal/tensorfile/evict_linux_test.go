package tensorfile_test

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tensorfile"
)

// resident is how many bytes of a mapped file this process has in its memory.
func resident(t *testing.T, path string) int {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, mapping, ok := bytes.Cut(smaps, []byte(path+"\n"))
	require.True(t, ok, "%s is not mapped", path)
	_, rss, _ := bytes.Cut(mapping, []byte("\nRss:"))
	n, err := strconv.Atoi(string(bytes.Fields(rss)[0]))
	require.NoError(t, err)
	return n << 10
}

func TestEvictGivesTheTensorsPagesBackAndNoOthers(t *testing.T) {
	const pages = 19 // too few for a huge page, which goes as a whole, also where pages of 64 KiB are emulated
	f, content := open(t, pages*page)
	tensor, err := tensorfile.Tensor(f, tensorfile.Place{Offset: int64(page), Size: int64(10 * page), Alignment: 16})
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, f.Data()))
	require.Equal(t, pages*page, resident(t, f.Path()))
	for range 1 << 10 { // parts of a file are given back together
		tensor.Evict()
	}
	require.Equal(t, (pages-10)*page, resident(t, f.Path()))
	require.True(t, bytes.Equal(content[page:11*page], tensor.Data))
}
