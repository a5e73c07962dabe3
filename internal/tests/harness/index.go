//go:build cgo

package harness

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
)

// ReadIndex reads a cache file's records.
func ReadIndex(t testing.TB, path string) (file []byte, index *format.Index) {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := format.DecodeHeader(file)
	require.NoError(t, err)
	index, err = format.LoadIndex(bytes.NewReader(file), h.Current)
	require.NoError(t, err)
	require.NoError(t, index.Check())
	return file, index
}

func Record(t testing.TB, index *format.Index, i int) format.Record {
	t.Helper()
	r, err := index.Record(i)
	require.NoError(t, err)
	return r
}
