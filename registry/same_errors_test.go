package registry_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/registry"
)

// golden is a cache file of the documented format.
func golden(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "internal", "format", "testdata", "version4.golden"))
	require.NoError(t, err)
	return b
}

// ofVersion is the golden file with another format version in its header.
func ofVersion(t *testing.T, version uint32) []byte {
	t.Helper()
	b := golden(t)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint64(b[32:], xxh3.Hash(b[:32]))
	return b
}

// executorchFile is an ExecuTorch file, with a page of payload for each name.
func executorchFile(names ...string) []byte {
	const page = 4096
	var trailer []format.TrailerEntry
	for i, name := range names {
		trailer = append(trailer, format.TrailerEntry{Name: name, Offset: uint64(i * page), Size: 1000, Seed: 1})
	}
	file := bytes.Repeat([]byte{1}, len(names)*page)
	return append(file, format.EncodeTrailer(trailer, uint64(len(file)))...)
}

func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// Each package reports an unusable file with the same error.
func TestEveryPackageReturnsTheSameErrors(t *testing.T) {
	good := golden(t)
	changed := bytes.Clone(good)
	changed[20] ^= 1
	h, err := format.DecodeHeader(good)
	require.NoError(t, err)
	root := bytes.Clone(good)
	root[h.Current.IndexOffset+20] ^= 1
	cutOff := executorchFile("a", "b")
	cutOff = cutOff[4096:]
	newer := executorchFile("a")
	binary.LittleEndian.PutUint32(newer[len(newer)-4:], 3)
	text := write(t, []byte("my notes"))
	const notCache, damaged, version, foreign = "ErrNotCache", "ErrDamaged", "ErrVersion", "ErrForeign"
	sentinels := map[string][]error{
		notCache: {xpwc.ErrNotCache, cachefile.ErrNotCache, format.ErrNotCache},
		damaged:  {xpwc.ErrDamaged, cachefile.ErrDamaged, format.ErrDamaged, registry.ErrDamaged},
		version:  {xpwc.ErrVersion, cachefile.ErrVersion, format.ErrVersion},
		foreign:  {xpwc.ErrForeign, cachefile.ErrForeign, format.ErrForeign},
	}
	for name, c := range map[string]struct{ path, text string }{
		"a text":                              {text, notCache},
		"a long text":                         {write(t, bytes.Repeat([]byte("my notes"), 1000)), notCache},
		"a directory":                         {t.TempDir(), notCache},
		"a bit of the header":                 {write(t, changed), damaged},
		"a bit of the index' root":            {write(t, root), damaged},
		"a file that is cut off":              {write(t, good[:len(good)-1]), damaged},
		"a header that is cut off":            {write(t, good[:100]), damaged},
		"ExecuTorch's without its first page": {write(t, cutOff), damaged},
		"an older version":                    {write(t, ofVersion(t, format.Version-1)), version},
		"a newer version":                     {write(t, ofVersion(t, format.Version+1)), version},
		"a newer one that is ExecuTorch's":    {write(t, newer), version},
		"ExecuTorch's":                        {write(t, executorchFile("a")), foreign},
	} {
		for reader, read := range map[string]func(path string) error{
			"xpwc": func(path string) error {
				cache, err := xpwc.Open(path, &xpwc.Options{Strict: true})
				if err == nil {
					err = cache.Close()
				}
				return err
			},
			"cachefile": func(path string) error {
				f, err := cachefile.Open(path)
				if err != nil {
					return err
				}
				_, err = cachefile.Combine([]*cachefile.File{f}, cachefile.Digest{})
				return errors.Join(err, f.Close())
			},
			"registry": func(path string) error {
				_, err := registry.Push(t.Context(), "localhost:1/model:v1", []string{path}, nil)
				require.ErrorIs(t, err, registry.ErrBadFile)
				return err
			},
		} {
			t.Run(name+"/"+reader, func(t *testing.T) {
				err := read(c.path)
				require.ErrorContains(t, err, c.path)
				for text, errs := range sentinels {
					for _, sentinel := range errs {
						require.Equal(t, text == c.text, errors.Is(err, sentinel), "%s: %v", text, err)
					}
				}
			})
		}
	}
	_, err = format.DecodeHeader(ofVersion(t, format.Version-1))
	require.ErrorIs(t, err, format.ErrOlder)
	_, err = format.DecodeHeader(ofVersion(t, format.Version+1))
	require.NotErrorIs(t, err, format.ErrOlder)
}
