package harness

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/osdisk"
)

// These tests make the calls that XNNPACK makes, without XNNPACK, so that they run where there is none. The packing is
// a transformation of the tensor's bytes.

func PackedFrom(content []byte) []byte {
	packed := bytes.Repeat([]byte{0x5a}, len(content)+64)
	for i, b := range content {
		packed[len(packed)-1-i] = b ^ 0xff
	}
	return packed
}

func Content(name string, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ name[i%len(name)]
	}
	return b
}

func Tensors(n, size int) map[string][]byte {
	tensors := map[string][]byte{}
	for i := range n {
		name := fmt.Sprint("tensor ", i)
		tensors[name] = Content(name, size+i)
	}
	return tensors
}

func Open(t testing.TB, path string, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c, err := xpwc.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// OpenProcess opens a path as another process would: with a store of its own.
func OpenProcess(t *testing.T, path string) *xpwc.Cache {
	c, err := OpenAlone(path, (&xpwc.Options{WriterWait: -1}), osdisk.Files{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Packed is a session whose runtime has been created, with the bytes that it must find at each address.
type Packed struct {
	*xpwc.Session
	Entries map[string]PackedEntry // by the names of the kernels
}

type PackedEntry struct {
	Bytes []byte
	want  []byte
}

// PackTensors has a session pack or find the named tensors.
func PackTensors(t testing.TB, c *xpwc.Cache, tensors map[string][]byte) *Packed {
	t.Helper()
	s, err := c.NewSession(xpwc.MapOf(tensors))
	require.NoError(t, err)
	return PackSession(t, s, tensors)
}

// PackSession makes the calls of a runtime's creation, finalizes the session, and checks that its memory is unchanged.
func PackSession(t testing.TB, s *xpwc.Session, tensors map[string][]byte) *Packed {
	t.Helper()
	o := PackUnfinalized(t, s, tensors)
	o.Check(t)
	require.NoError(t, s.Finalize())
	o.Check(t)
	return o
}

// PackUnfinalized makes the calls of a runtime's creation.
func PackUnfinalized(t testing.TB, s *xpwc.Session, tensors map[string][]byte) *Packed {
	t.Helper()
	t.Cleanup(func() { _ = s.Close() }) // if the test does not: Windows keeps mapped files
	o := &Packed{s, map[string]PackedEntry{}}
	for name := range tensors {
		content, err := s.Load(name, xpwc.Believe())
		require.NoError(t, err)
		kernel := Address(content)
		want := PackedFrom(tensors[name])
		address := LookUp(s, 42, kernel, 0)
		if address == NotFound {
			space := Reserve(s, uint64(len(want)))
			require.NotNil(t, space)
			require.Zero(t, Address(space)%64)
			copy(space, PackedFrom(content))
			address = Insert(s, 42, kernel, 0, Address(space), uint64(len(want)))
		}
		o.Entries[name] = PackedEntry{EntryBytes(t, s, address, len(want)), want}
	}
	return o
}

// EntryBytes finds the entry that an address belongs to: the session must keep it.
func EntryBytes(t testing.TB, s *xpwc.Session, address uintptr, n int) []byte {
	for _, e := range User(s).Used() {
		if Address(e.Data) == address {
			require.Len(t, e.Data, n)
			return e.Data
		}
	}
	t.Fatalf("%#x is not the address of anything the session keeps", address)
	return nil
}

func (o *Packed) Check(t testing.TB) {
	t.Helper()
	for name, p := range o.Entries {
		require.True(t, bytes.Equal(p.want, p.Bytes), "the packed bytes of %s", name)
	}
}

func (o *Packed) MustClose(t testing.TB) {
	t.Helper()
	o.Check(t)
	require.NoError(t, o.Close())
}

// Path returns the path of a cache in a directory of its own.
func Path(t testing.TB) string { return filepath.Join(t.TempDir(), "cache") }

type TensorMap map[string]xpwc.Tensor

func (m TensorMap) Tensor(name string) (xpwc.Tensor, error) { return m[name], nil }

func NewSession(t testing.TB, c *xpwc.Cache, m map[string][]byte) *xpwc.Session {
	t.Helper()
	s, err := c.NewSession(xpwc.MapOf(m))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Load loads a tensor of a host that vouches for its name and opaque identities.
func Load(t testing.TB, s *xpwc.Session, name string, o ...xpwc.LoadOption) uintptr {
	t.Helper()
	b, err := s.Load(name, append(o, xpwc.Believe())...)
	require.NoError(t, err)
	return Address(b)
}

// PackWeight makes the calls XNNPACK makes for one weight: packed is what the kernel would write. hit distinguishes a
// look-up hit.
func PackWeight(t testing.TB, s *xpwc.Session, seed uint32, kernel, bias uintptr, packed []byte) (got []byte,
	hit bool) {
	t.Helper()
	a := LookUp(s, seed, kernel, bias)
	hit = a != NotFound
	if !hit {
		space := Reserve(s, uint64(len(packed)))
		require.NotNil(t, space)
		copy(space, packed)
		a = Insert(s, seed, kernel, bias, Address(space), uint64(len(packed)))
	}
	return EntryBytes(t, s, a, len(packed)), hit
}

func Finish(t testing.TB, s *xpwc.Session) {
	t.Helper()
	err := s.Finalize()
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// AwaitCommit waits for the commit under way, or about to be.
func AwaitCommit(c *xpwc.Cache) error { return Probe(c).Commit() }

// HoldCommits delays commits until Save.
func HoldCommits(c *xpwc.Cache) { Probe(c).Hold() }

// WriteAgain lets a cache write to a file although its last file has just ended.
func WriteAgain(c *xpwc.Cache) { Probe(c).WriteAgain() }

// RequireRight requires that a session's packed weights can be read and are what was packed from a model.
func RequireRight(t *testing.T, s *xpwc.Session, m map[string][]byte) {
	t.Helper()
	for _, e := range User(s).Used() {
		right := false
		want := string(PackedFrom(m[e.Record.Kernel]))
		require.NoError(t, mapped.Faultless(func() { right = want == string(e.Data) }))
		require.True(t, right, "the bytes of %s", e.Record.Kernel)
	}
}

// PackModel has a session pack or find a model's tensors, in the order of their names.
func PackModel(c *xpwc.Cache, m OneModel) (*xpwc.Session, error) {
	s, err := c.NewSession(m)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := PackTensor(s, name, m[name]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	err = s.Finalize()
	for _, e := range User(s).Used() {
		if !bytes.Equal(e.Data, PackedFrom(m[e.Record.Kernel])) {
			err = errors.Join(err, fmt.Errorf("%s is not what was packed", e.Record.Kernel))
		}
	}
	return s, err
}

func PackTensor(s *xpwc.Session, name string, content []byte) error {
	space, err := BeginPacking(s, name, len(content)+64)
	if space != nil {
		copy(space, PackedFrom(content))
		EndPacking(s, name, space)
	}
	return err
}

// BeginPacking returns the space for the packed bytes, or nil if they are there.
func BeginPacking(s *xpwc.Session, name string, size int) ([]byte, error) {
	content, err := s.Load(name, xpwc.Believe())
	if err != nil || LookUp(s, 42, Address(content), 0) != NotFound {
		return nil, err
	}
	space := Reserve(s, uint64(size))
	if space == nil {
		err = errors.New("no space to pack into")
	}
	return space, err
}

func EndPacking(s *xpwc.Session, name string, space []byte) {
	Insert(s, 42, Address(LoadedContent(s, name)), 0, Address(space), uint64(len(space)))
}

// UseStamped has a session find or pack a tensor whose stamp may be another each time.
func UseStamped(t *testing.T, c *xpwc.Cache, stamp string) (s *xpwc.Session, hit bool) {
	t.Helper()
	content := Content("a", 3000)
	s, err := c.NewSession(TensorMap{"a": {Data: content, Identity: xpwc.Identity{Source: "model", Stamp: stamp}}})
	require.NoError(t, err)
	_, hit = PackWeight(t, s, 42, Load(t, s, "a"), 0, PackedFrom(content))
	return s, hit
}
