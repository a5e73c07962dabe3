// Package hook lets the tests below internal/tests make XNNPACK's calls without XNNPACK, and look into a cache. The
// root package sets the variables; only tests use them. A cache is an *xpwc.Cache, a session an *xpwc.Session, options
// are *xpwc.Options.
package hook

import (
	"xpwc/internal/store"
	"xpwc/internal/writer"
)

// The calls of xnn_weights_cache_provider. LookUp and Insert return the address of the packed weights; LookUp returns
// SIZE_MAX for a miss.
var (
	LookUp  func(session any, seed uint32, kernel, bias uintptr) uintptr
	Reserve func(session any, size uint64) []byte
	Insert  func(session any, seed uint32, kernel, bias, address uintptr, size uint64) uintptr
	Alias   func(session any, duplicate, original uintptr)
)

var (
	// Open opens a cache on these files. A shared one has one writer with the other shared caches of the path; another
	// has a writer of its own, as in another process.
	Open func(path string, options any, files store.Files, shared bool) (cache any, err error)

	// Writer returns the writer of a cache, and User the session's use of it.
	Writer func(cache any) *writer.Writer
	User   func(session any) *writer.User

	// AwaitEvents returns when the cache's logger has handled all events.
	AwaitEvents func(cache any)
)
