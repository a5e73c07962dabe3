package xpwc

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/osdisk"
)

// These tests make the calls that XNNPACK makes, without XNNPACK, so that they run where there is none. The packing is
// a transformation of the tensor's bytes.

func packedFrom(content []byte) []byte {
	packed := bytes.Repeat([]byte{0x5a}, len(content)+64)
	for i, b := range content {
		packed[len(packed)-1-i] = b ^ 0xff
	}
	return packed
}

func contentOf(name string, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ name[i%len(name)]
	}
	return b
}

func someTensors(n, size int) map[string][]byte {
	tensors := map[string][]byte{}
	for i := range n {
		name := fmt.Sprint("tensor ", i)
		tensors[name] = contentOf(name, size+i)
	}
	return tensors
}

func mustOpen(t testing.TB, path string, o *Options) *Cache {
	t.Helper()
	c, err := Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// otherProcess opens a path as another process would: with a store of its own.
func otherProcess(t *testing.T, path string) *Cache {
	c, err := openAlone(path, (&Options{WriterWait: -1}), osdisk.Files{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// opened is a session whose runtime has been created, with what it was promised to find at each address.
type opened struct {
	*Session
	at map[string]packedAt
}

type packedAt struct {
	bytes []byte
	want  []byte
}

// open has a session pack or find the named tensors.
func open(t testing.TB, c *Cache, tensors map[string][]byte) *opened {
	t.Helper()
	s, err := c.NewSession(MapOf(tensors))
	require.NoError(t, err)
	return packAll(t, s, tensors)
}

// packAll makes the calls of a runtime's creation, finalizes the session, and checks that its memory stays as it was.
func packAll(t testing.TB, s *Session, tensors map[string][]byte) *opened {
	t.Helper()
	o := pack(t, s, tensors)
	o.check(t)
	require.NoError(t, s.Finalize())
	o.check(t)
	return o
}

// pack makes the calls of a runtime's creation.
func pack(t testing.TB, s *Session, tensors map[string][]byte) *opened {
	t.Helper()
	t.Cleanup(func() { _ = s.Close() }) // if the test does not: Windows keeps mapped files
	o := &opened{s, map[string]packedAt{}}
	for name := range tensors {
		content, err := s.Load(name, Believe())
		require.NoError(t, err)
		kernel := addressTo(content)
		want := packedFrom(tensors[name])
		address := lookUp(s, 42, kernel, 0)
		if address == missing {
			space := reserve(s, uint64(len(want)))
			require.NotNil(t, space)
			require.Zero(t, addressTo(space)%64)
			copy(space, packedFrom(content))
			address = insert(s, 42, kernel, 0, addressTo(space), uint64(len(want)))
		}
		o.at[name] = packedAt{bytesAt(t, s, address, len(want)), want}
	}
	return o
}

// bytesAt finds the entry that an address belongs to: the session must keep it.
func bytesAt(t testing.TB, s *Session, address uintptr, n int) []byte {
	for _, e := range userOf(s).Used() {
		if addressTo(e.Data) == address {
			require.Len(t, e.Data, n)
			return e.Data
		}
	}
	t.Fatalf("%#x is not the address of anything the session keeps", address)
	return nil
}

func (o *opened) check(t testing.TB) {
	t.Helper()
	for name, p := range o.at {
		require.True(t, bytes.Equal(p.want, p.bytes), "the packed bytes of %s", name)
	}
}

func (o *opened) close(t testing.TB) {
	t.Helper()
	o.check(t)
	require.NoError(t, o.Close())
}

// cachePath returns the path of a cache in a directory of its own.
func cachePath(t testing.TB) string { return filepath.Join(t.TempDir(), "cache") }

type tensorMap map[string]Tensor

func (m tensorMap) Tensor(name string) (Tensor, error) { return m[name], nil }

func newSession(t testing.TB, c *Cache, m map[string][]byte) *Session {
	t.Helper()
	s, err := c.NewSession(MapOf(m))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// load loads a tensor of a host that vouches for what its name and opaque identities stand for.
func load(t testing.TB, s *Session, name string, o ...LoadOption) uintptr {
	t.Helper()
	b, err := s.Load(name, append(o, Believe())...)
	require.NoError(t, err)
	return addressTo(b)
}

// packWeight makes the calls XNNPACK makes for one weight: packed is what the kernel would write. hit distinguishes a
// look-up hit.
func packWeight(t testing.TB, s *Session, seed uint32, kernel, bias uintptr, packed []byte) (got []byte, hit bool) {
	t.Helper()
	a := lookUp(s, seed, kernel, bias)
	hit = a != missing
	if !hit {
		space := reserve(s, uint64(len(packed)))
		require.NotNil(t, space)
		copy(space, packed)
		a = insert(s, seed, kernel, bias, addressTo(space), uint64(len(packed)))
	}
	return bytesAt(t, s, a, len(packed)), hit
}

func finish(t testing.TB, s *Session) {
	t.Helper()
	err := s.Finalize()
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// awaitCommit waits for the commit under way, or about to be.
func awaitCommit(c *Cache) error { return probe(c).Commit() }

// holdCommits delays commits until Save.
func holdCommits(c *Cache) { probe(c).Hold() }

// writeAgain lets a cache write to a file although its last file has just ended.
func writeAgain(c *Cache) { probe(c).WriteAgain() }
