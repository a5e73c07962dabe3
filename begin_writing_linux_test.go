package xpwc

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is packed into a file that is given up meanwhile is not committed.
func TestWritingCanBeginAfterCloseWithoutAnError(t *testing.T) {
	f, err := createFile(filepath.Join(t.TempDir(), "cache"))
	require.NoError(t, err)
	d := &osDisk{File: f, path: f.Name(), writable: true}
	require.NoError(t, d.BeginWriting(0, 4096))
	require.NoError(t, d.Close())
	require.NoError(t, d.BeginWriting(0, 4096))
}
