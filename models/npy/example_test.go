//go:build cgo

package npy_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"xpwc"
	"xpwc/models/npy"
	"xpwc/xnnpack"
)

// A model of one fully connected layer whose weights NumPy wrote, loaded twice with one cache file: first its weights
// are packed, then they are found.
func Example() {
	dir, err := os.MkdirTemp("", "npy")
	check(err)
	defer os.RemoveAll(dir)
	for range 2 {
		weights, err := npy.Open("testdata/reference")
		check(err)
		cache, err := xpwc.Open(filepath.Join(dir, "model.xpwc"), nil)
		check(err)
		y := run(cache, weights)
		stats := cache.Stats()
		fmt.Println(y, "packed:", stats.Packed.Entries, "found:", stats.Hits.Entries)
		check(cache.Close())
		check(weights.Close())
	}
	// Output:
	// [-67 265] packed: 1 found: 0
	// [-67 265] packed: 0 found: 1
}

// run computes y = x * kernelᵀ + bias in a session of its own.
func run(cache *xpwc.Cache, weights *npy.Dir) []float32 {
	session, err := cache.NewSession(weights)
	check(err)
	subgraph, err := xnnpack.NewSubgraph(2)
	check(err)
	check(subgraph.Input(0, xnnpack.Tensor{Name: "x", Type: xnnpack.Float32, Shape: []int{1, 3}}))
	check(subgraph.Output(1, xnnpack.Tensor{Name: "y", Type: xnnpack.Float32, Shape: []int{1, 2}}))
	kernel, bias, float := describe(weights, "kernel"), describe(weights, "layer/bias"),
		xnnpack.Tensor{Type: xnnpack.Float32}
	layer := xnnpack.FullyConnected{Input: 0, Output: 1}
	layer.Filter = load(session, subgraph, kernel, xpwc.PackedAs(layer.Packing(kernel, bias, float, float)))
	layer.Bias = load(session, subgraph, bias)
	check(subgraph.Add(layer))
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	check(err)
	check(subgraph.Delete())
	err = session.Finalize()
	check(err)

	x, err := xnnpack.NewBuffer(4 * 3)
	check(err)
	defer x.Free()
	copy(x.Float32s(), []float32{1, 10, 100})
	y, err := xnnpack.NewBuffer(4 * 2)
	check(err)
	defer y.Free()
	check(runtime.Reshape())
	check(runtime.Setup(map[xnnpack.ValueID][]byte{0: x.Bytes(), 1: y.Bytes()}))
	check(runtime.Invoke())
	out := append([]float32{}, y.Float32s()...)
	check(runtime.Delete())
	check(session.Close())
	return out
}

// describe returns a tensor as XNNPACK knows it, without its content.
func describe(weights *npy.Dir, name string) xnnpack.Tensor {
	a, ok := weights.Lookup(name)
	if !ok {
		log.Fatalf("no tensor %q", name)
	}
	return xnnpack.Tensor{Name: name, Type: xnnpack.Float32, Shape: a.Shape}
}

// load defines a value of the subgraph whose content the session gives.
func load(session *xpwc.Session, subgraph *xnnpack.Subgraph, t xnnpack.Tensor,
	options ...xpwc.LoadOption) xnnpack.ValueID {
	data, err := session.Load(t.Name, append(options, xpwc.PackOnly())...)
	check(err)
	t.Data = data
	id, err := subgraph.Tensor(t)
	check(err)
	return id
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
