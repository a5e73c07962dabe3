// Package models is the contract of everything that makes XNNPACK subgraphs: what a program needs to load any model,
// with a cache or without. Package [xpwc/models/inference] does all of it in one call.
//
//	session, err := cache.NewSession(m.DataMap())       // or models.NewMemory, without a cache
//	subgraph, err := m.Subgraph(session)
//	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
//
// Packages [xpwc/models/tflite], [xpwc/models/executorch] and [xpwc/models/described] make models.
package models

import (
	"xpwc"
	"xpwc/xnnpack"
)

// A Model makes subgraphs of one computation. A file with several computations gives a Model for each, which is
// closed by itself. Their data maps give a constant that they share one name, so that a cache packs it once. The
// methods of a Model may be called from many goroutines.
type Model interface {
	// Inputs returns the inputs in the model's own order.
	Inputs() []Value
	// Outputs returns the outputs in the model's own order.
	Outputs() []Value

	// DataMap returns the constants that the model's nodes use, for [xpwc.Cache.NewSession]. It may be used until
	// Close.
	DataMap() xpwc.DataMap

	// Subgraph makes a new subgraph, and asks the loader for each constant that a node uses, with options for
	// how XNNPACK uses it. The external values are the IDs of Inputs and Outputs. The caller deletes the subgraph when
	// a runtime is made of it.
	Subgraph(Loader) (*xnnpack.Subgraph, error)
	// WeightBytes is the size of the unpacked weights that XNNPACK packs, as it is given them.
	WeightBytes() int64

	// Close closes the files that the model was read from. Subgraphs, runtimes, loaders and sessions made of the
	// model must be gone before. Closing twice is harmless.
	Close() error
}

// A Loader gives the content of a model's constants by name: an [xpwc.Session], or a [Memory]. What it returns lies
// outside the Go heap, and stays where it is until the runtime is created, or, with [xpwc.Retain], deleted. With
// [xpwc.Eager] the content is there on return, otherwise at the latest when XNNPACK packs it. The error names the
// constant.
type Loader interface {
	Load(name string, options ...xpwc.LoadOption) ([]byte, error)
}
