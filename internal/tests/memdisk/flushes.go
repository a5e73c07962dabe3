package memdisk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// CheckFlushes shows that a recording's replay misses each kind of flush that the cache file at a path needs. record
// makes a recording with a process that forgets flushes, if forgets is not nil, and returns what its replay finds
// wrong.
func CheckFlushes(t *testing.T, path string, record func(forgets func(flush, prev string) bool) error) {
	require.NoError(t, record(nil))
	wrote := func(bytes, file string) func(flush, prev string) bool {
		return func(_, prev string) bool { return strings.HasPrefix(prev, "write "+bytes+" bytes of "+file+" at ") }
	}
	header, slot := wrote("4096", path), wrote("128", path)
	renamed := func(prev string) bool { return strings.HasPrefix(prev, "rename ") }
	for name, forgets := range map[string]func(flush, prev string) bool{
		"of payloads": func(flush, _ string) bool { return flush == Payloads(path) },
		"of a slot":   slot,
		"of an index": func(flush, prev string) bool {
			return flush == path && strings.HasPrefix(prev, "write ") &&
				!header(flush, prev) && !slot(flush, prev)
		},
		"of the slot of a file to be renamed": wrote("128", path+".compact"),
		"of a new file's name": func(flush, prev string) bool {
			return flush == "directory" && !renamed(prev)
		},
		"of a renamed file's name": func(flush, prev string) bool {
			return flush == "directory" && renamed(prev)
		},
	} {
		t.Run(name, func(t *testing.T) {
			forgot := 0
			err := record(func(flush, prev string) bool {
				if forgets(flush, prev) {
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
