// Package packing says what XNNPACK is about to do with a kernel.
//
// XNNPACK's own key for packed weights is an address of the kernel, one of the bias, and a seed that is an exclusive or
// of small numbers: [32, 512] has the seed of [512, 32], 2 groups that of 6, and scales, zero points, block sizes and
// the bias of dynamically quantised operators are not in it. An [Identity] is all of that. It has a [Digest], which a
// cache keys packed weights by, a [Geometry], from which XNNPACK can be asked how many bytes it packs, and a [Family].
//
// Package xnnpack makes the identity of a node. The package needs neither cgo nor XNNPACK.
package packing
