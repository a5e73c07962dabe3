package xnnpack

import "unsafe"

// WeightsCache is where a runtime puts its packed weights, or finds them: an xpwc.Session, or a [HeapWeightsCache].
type WeightsCache interface {
	// Provider returns a *struct xnn_weights_cache_provider in C memory that stays valid until every runtime created
	// with it is deleted.
	Provider() unsafe.Pointer
}
