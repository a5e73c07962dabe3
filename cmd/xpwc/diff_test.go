package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

// ofLayout is a cache file of one entry of a layout.
func ofLayout(t *testing.T, fingerprint byte) []byte {
	payload := bytes.Repeat([]byte{fingerprint}, 100)
	layout := format.Layout{Fingerprint: format.Digest{fingerprint}}
	key := format.Key{Layout: layout.Fingerprint, Kernel: "k"}
	records := []format.Record{{Key: key, Offset: format.HeaderSize, Size: 100, Sum: digest.Of(payload)}}
	slot, block, err := format.EncodeGeneration(1, format.HeaderSize+100, []format.Layout{layout}, records)
	require.NoError(t, err)
	b := format.NewHeader([16]byte{1})
	encoded, end := slot.Encode([16]byte{1})
	copy(b[end:], encoded)
	b = append(append(b, payload...), make([]byte, int(slot.IndexOffset)-format.HeaderSize-100)...)
	return append(b, block...)
}

func TestALayoutOfZerosIsALayoutToDiff(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), ofLayout(t, byte(i)), 0o600))
	}
	require.Contains(t, printed(t, dir, 1, "diff", "a", "b"), "layout 00000000")
}
