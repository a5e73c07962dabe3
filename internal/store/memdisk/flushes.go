package memdisk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// CheckFlushes shows that a recording's replay misses each kind of flush that the cache file at a path needs. record
// makes a recording with a process that forgets flushes, if forgets is not nil, and returns what its replay finds
// wrong. (Only the flush of the payloads would not be missed: that of the index covers it.)
func CheckFlushes(t *testing.T, path string, record func(forgets func(flush, after string) bool) error) {
	require.NoError(t, record(nil))
	wrote := func(bytes, file string) func(flush, after string) bool {
		return func(_, after string) bool { return strings.HasPrefix(after, "write "+bytes+" bytes of "+file+" at ") }
	}
	header, slot := wrote("4096", path), wrote("128", path)
	renamed := func(after string) bool { return strings.HasPrefix(after, "rename ") }
	for name, forgets := range map[string]func(flush, after string) bool{
		"of the header": header,
		"of a slot":     slot,
		"of an index": func(flush, after string) bool {
			return flush == path && strings.HasPrefix(after, "write ") &&
				!header(flush, after) && !slot(flush, after)
		},
		"of the slot of a file to be renamed": wrote("128", path+".compact"),
		"of a new file's name": func(flush, after string) bool {
			return flush == "directory" && !renamed(after)
		},
		"of a renamed file's name": func(flush, after string) bool {
			return flush == "directory" && renamed(after)
		},
	} {
		t.Run(name, func(t *testing.T) {
			forgot := 0
			err := record(func(flush, after string) bool {
				if forgets(flush, after) {
					forgot++
					return true
				}
				return false
			})
			require.NotZero(t, forgot)
			require.Error(t, err)
		})
	}
}
