//go:build !cgo

package ask

import "xpwc/xnnpack/packing"

func probeLayout(*sample) error { return ErrNoCgo }

func probeFamily(packing.Family, *sample) bool { return false }

// BuildIdentifier returns nil; with cgo it is what XNNPACK identifies its build by.
func BuildIdentifier() []byte { return nil }

// CheckXNNPACK returns nil; with cgo it compares XNNPACK with its header.
func CheckXNNPACK() error { return nil }

func processor() []byte { return nil }

func askPackedSize(*packing.Geometry, uint64, int) size { return size{} }
