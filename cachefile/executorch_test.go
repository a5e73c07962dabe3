package cachefile_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
)

// loadedByExecuTorch reads a file by the rules that ExecuTorch's loader goes by (XNNWeightsCache.cpp, pull request
// 19988), knowing nothing of package format, and returns the packed weights by name, and their seeds. It takes no
// file that breaks a rule.
func loadedByExecuTorch(b []byte) (payloads map[string][]byte, seeds map[string]uint32, ok bool) {
	le := binary.LittleEndian
	if len(b) < 20 {
		return nil, nil, false
	}
	footer := b[len(b)-20:]
	start, count := le.Uint64(footer), le.Uint32(footer[8:])
	if le.Uint32(footer[12:]) != 0x58505743 || le.Uint32(footer[16:]) != 2 || start >= uint64(len(b)-20) {
		return nil, nil, false
	}
	payloads, seeds = map[string][]byte{}, map[string]uint32{}
	rest := b[start : len(b)-20]
	for range count {
		if len(rest) < 4 || uint64(len(rest)) < 4+uint64(le.Uint32(rest))+20 {
			return nil, nil, false
		}
		n := le.Uint32(rest)
		name, fixed := string(rest[4:4+n]), rest[4+n:]
		offset, size := le.Uint64(fixed), le.Uint64(fixed[8:])
		if offset >= start || size > start-offset {
			return nil, nil, false
		}
		payloads[name], seeds[name] = b[offset:offset+size], le.Uint32(fixed[16:])
		rest = fixed[20:]
	}
	return payloads, seeds, true
}

func TestExecuTorchLoadsWhatIsWrittenForIt(t *testing.T) {
	f := open(t, write(t, sample(t)))
	dir := t.TempDir()
	load := func(name string, o cachefile.WriteOptions) (map[string][]byte, map[string]uint32, bool) {
		path := filepath.Join(dir, name)
		o.LeftOut = func(cachefile.Entry, error) error { return nil }
		require.NoError(t, copyTo(f, path, inLayout(thisLayout), o))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return loadedByExecuTorch(b)
	}
	payloads, seeds, ok := load("v2", cachefile.WriteOptions{Format: cachefile.XPWC2})
	require.True(t, ok)
	require.Equal(t, map[string]uint32{"convconv.bias": 1, "dense": 2, "tied": 4}, seeds)
	for i, name := range map[int]string{0: "convconv.bias", 1: "dense", 3: "tied"} {
		require.Equal(t, payloadOf(i, weights[i]), payloads[name])
	}
}

// A model's other packed weights of the name would be taken for it if they were missing.
func TestExecuTorchGetsAVariantOnlyOfACompleteFile(t *testing.T) {
	f := open(t, write(t, sample(t)))
	variant := func(e cachefile.Entry) bool { return e.Variant }
	path := filepath.Join(t.TempDir(), "variant")
	o := cachefile.WriteOptions{Format: cachefile.XPWC2}
	require.ErrorIs(t, copyTo(f, path, variant, o), cachefile.ErrAmbiguous)
	o.Complete = true
	require.NoError(t, copyTo(f, path, variant, o))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	_, seeds, ok := loadedByExecuTorch(b)
	require.True(t, ok)
	require.Equal(t, map[string]uint32{"scaled": 5}, seeds)
}

// ExecuTorch does not ask what CPU packed weights are for. In a native file it finds none, and no byte that is free.
func TestExecuTorchTakesNothingOfANativeFile(t *testing.T) {
	b := sample(t)
	claimed, _, ok := loadedByExecuTorch(b)
	require.True(t, ok)
	require.Len(t, claimed, 1)
	require.Equal(t, b[:len(b)-20-4-len(format.NativeEntry)-20], claimed[format.NativeEntry])
}
