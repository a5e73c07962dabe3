//go:build !cgo

package xpwc

import "unsafe"

// Without cgo there is no XNNPACK: cache files can be opened and inspected, and sessions exist for the tests of what
// does not need C, but none can be given to a runtime.
type provider struct{}

func newProvider(*Session) (provider, error) { return provider{}, nil }
func (provider) finalize()                   {}
func (provider) free()                       {}

// Provider returns nil; with cgo it is what a runtime takes.
func (s *Session) Provider() unsafe.Pointer { return nil }
