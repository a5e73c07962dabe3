package harness

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
)

// SmallFile packs a few tensors and returns the file's bytes, with where its structures are.
func SmallFile(t *testing.T, tensors map[string][]byte) (content []byte, slot format.Slot) {
	path := Path(t)
	c := Open(t, path, nil)
	PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Save())
	slot = Store(c).Slot()
	require.NoError(t, c.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content, slot
}

// Overwrite overwrites a file as a program does that opens it and writes to it.
func Overwrite(t testing.TB, path string, content []byte) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(content, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// ExecuTorchFile is what ExecuTorch would have written of the tensors, as packedFrom packs them.
func ExecuTorchFile(tensors map[string][]byte) []byte {
	file := make([]byte, 4096)
	var entries []format.TrailerEntry
	for name, content := range tensors {
		p := PackedFrom(content)
		entries = append(entries, format.TrailerEntry{
			Name: name, Offset: uint64(len(file)), Size: uint64(len(p)), Seed: 42,
		})
		file = append(file, p...)
		file = append(file, make([]byte, -len(file)&4095)...)
	}
	return append(file, format.EncodeTrailer(entries, uint64(len(file)))...)
}

// RecoverFault turns a signal of a missing page into a failure of the test.
func RecoverFault(t *testing.T) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			t.Errorf("SIGBUS: %v", r)
		}
	}
}
