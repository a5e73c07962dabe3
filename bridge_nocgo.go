//go:build !cgo

package xpwc

import (
	"unsafe"

	"xpwc/internal/store"
)

// Without cgo there is no XNNPACK: cache files can be opened and inspected, and sessions exist for the tests of what
// does not need C, but none can be given to a runtime.
type provider struct{}

func newProvider(*Session) (provider, error) { return provider{}, nil }
func (provider) finalize()                   {}
func (provider) free()                       {}

// Provider returns nil; with cgo it is what a runtime takes.
func (s *Session) Provider() unsafe.Pointer { return nil }

// Hash is for tests of what does not need C: what is verified is what runtimes use, and there are none.
func (d descriptor) Hash(payloads []store.Payload, stop *int32) error {
	for i := range payloads {
		payloads[i].HashWith(d, stop)
	}
	return nil
}
