// Package settled brings a file of a test into a state in which it has a stamp.
package settled

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/mapped"
)

// File returns when the file at path, written a moment ago, has a stamp for whoever opens it from now on. It returns
// path.
func File(t testing.TB, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	if time.Since(info.ModTime()) < time.Minute { // on overlayfs a file whose two times are one has none
		earlier := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(path, earlier, earlier))
	}
	f, err := mapped.Open(path)
	require.NoError(t, err)
	changed, err := f.Changed() // it waits until another change would show
	require.NoError(t, err)
	require.False(t, changed)
	require.NoError(t, f.Close())
	return path
}
