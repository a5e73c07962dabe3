//go:build !cgo

package xpwc

import (
	"unsafe"

	"xpwc/internal/store"
	"xpwc/packing"
)

// Without cgo there is no XNNPACK: cache files can be opened and inspected, and sessions exist for the tests of what
// does not need C, but none can be given to a runtime.
type provider struct{}

func newProvider(*Session) (provider, error) { return provider{}, nil }
func (provider) finalize()                   {}
func (provider) free()                       {}

// Provider returns nil; with cgo it is what a runtime takes.
func (s *Session) Provider() unsafe.Pointer { return nil }

func askPackedSize(*packing.Geometry, uint64, int) packedSize { return packedSize{} }

// Hash is for tests of what does not need C: what is verified is what runtimes use, and there are none.
func (d descriptor) Hash(payloads []store.Payload, stop *int32) error {
	for i := range payloads {
		payloads[i].HashWith(d, stop)
	}
	return nil
}

func buildIdentifier() []byte { return nil }

func probeLayout(*sample) error { return ErrNoCgo }

func probeFamily(packing.Family, *sample) bool { return false }
