package harness

import (
	"unsafe"

	"xpwc"
	"xpwc/internal/hook"
	"xpwc/internal/store"
	"xpwc/internal/writer"
)

// NotFound is the answer of a look-up that misses: SIZE_MAX (xnnpack.h).
const NotFound = ^uintptr(0)

// LookUp makes XNNPACK's call to look_up.
func LookUp(s *xpwc.Session, seed uint32, kernel, bias uintptr) uintptr {
	return hook.LookUp(s, seed, kernel, bias)
}

// Reserve makes XNNPACK's call to reserve_space.
func Reserve(s *xpwc.Session, size uint64) []byte { return hook.Reserve(s, size) }

// Insert makes XNNPACK's call to look_up_or_insert, for the bytes packed at an address.
func Insert(s *xpwc.Session, seed uint32, kernel, bias, address uintptr, size uint64) uintptr {
	return hook.Insert(s, seed, kernel, bias, address, size)
}

// Alias makes XNNPACK's call to alias_data.
func Alias(s *xpwc.Session, duplicate, original uintptr) { hook.Alias(s, duplicate, original) }

// OpenAlone opens a cache on these files, with a writer of its own, as another process does.
func OpenAlone(path string, o *xpwc.Options, f store.Files) (*xpwc.Cache, error) {
	return open(path, o, f, false)
}

// OpenShared opens a cache on these files. It shares its writer with other handles of the path.
func OpenShared(path string, o *xpwc.Options, f store.Files) (*xpwc.Cache, error) {
	return open(path, o, f, true)
}

func open(path string, o *xpwc.Options, f store.Files, shared bool) (*xpwc.Cache, error) {
	c, err := hook.Open(path, o, f, shared)
	if err != nil {
		return nil, err
	}
	return c.(*xpwc.Cache), nil
}

// Writer returns the writer that all handles of a path share.
func Writer(c *xpwc.Cache) *writer.Writer { return hook.Writer(c) }

// User returns the session's part in its writer.
func User(s *xpwc.Session) *writer.User { return hook.User(s) }

// Probe looks into a cache's writer.
func Probe(c *xpwc.Cache) writer.Probe { return Writer(c).Probe() }

// AwaitEvents returns when the cache's logger has handled all events so far.
func AwaitEvents(c *xpwc.Cache) { hook.AwaitEvents(c) }

// LoadedContent returns the memory of a tensor that the session has loaded.
func LoadedContent(s *xpwc.Session, name string) []byte {
	b, _ := s.Load(name, xpwc.Believe())
	return b
}

// Address returns where b starts in memory.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
