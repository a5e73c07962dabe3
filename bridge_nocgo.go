//go:build !cgo

package xpwc

import "unsafe"

// Without cgo there is no XNNPACK: cache files can be opened and inspected, but a session has no provider to give to a
// runtime.
type provider struct{}

func newProvider(*Session) (provider, error) { return provider{}, nil }
func (provider) finalize()                   {}
func (provider) free()                       {}

// Provider returns nil; with cgo it is what a runtime takes.
func (s *Session) Provider() unsafe.Pointer { return nil }
