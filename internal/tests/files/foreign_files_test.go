package files

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
)

// A file with the name of one of the cache's auxiliary files is left alone, unless its content proves that a cache left
// it.
func TestForeignFilesInTheDirectoryAreLeftAlone(t *testing.T) {
	m := harness.Tensors(3, 2000)
	for suffix, work := range map[string]func(t *testing.T, path string){
		".compact": func(t *testing.T, path string) {
			c := harness.Open(t, path, nil)
			harness.PackTensors(t, c, m).MustClose(t)
			require.NoError(t, c.Compact())
			require.EqualValues(t, 1, c.Stats().Compactions)
			require.NoError(t, c.Close())
		},
		".damaged": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, fileWithWrongHeader(), 0o600))
			c := harness.Open(t, path, nil)
			harness.PackTensors(t, c, m).MustClose(t)
			require.NoError(t, c.Close())
			require.EqualValues(t, len(m), c.Stats().Entries)
		},
	} {
		t.Run(suffix, func(t *testing.T) {
			for name, theirs := range map[string][]byte{
				"text":  []byte("somebody's notes"),
				"zeros": make([]byte, 5000),
			} {
				path := harness.Path(t)
				require.NoError(t, os.WriteFile(path+suffix, theirs, 0o600))
				work(t, path)
				content, err := os.ReadFile(path + suffix)
				require.NoError(t, err, name)
				require.Equal(t, theirs, content, name)
			}
			for _, content := range [][]byte{format.NewHeader([16]byte{1}), {}} {
				path := harness.Path(t)
				require.NoError(t, os.WriteFile(path+suffix, content, 0o600))
				work(t, path)
				content, err := os.ReadFile(path + suffix)
				if suffix == ".damaged" {
					require.NoError(t, err)
					require.Equal(t, fileWithWrongHeader(), content, "the damaged file takes the place of the last one")
				} else {
					require.True(t, errors.Is(err, os.ErrNotExist), "what a killed process left is gone")
				}
			}
		})
	}
}

// fileWithWrongHeader is a cache file whose header's checksum is wrong.
func fileWithWrongHeader() []byte {
	b := format.NewHeader([16]byte{2})
	b[20]++
	return b
}
