package xnnpack_test

import (
	"fmt"
	"log"
	"math"

	"xpwc/xnnpack"
)

// A model of one fully connected layer: y = ReLU(x * wᵀ + b), for a row x of three floats and a row y of two.
func Example() {
	w, b := floats(1, 2, 3, -4, -5, -6), floats(0.5, 1)
	x, y := floats(1, 10, 100), floats(0, 0)
	defer free(w, b, x, y)

	subgraph, err := xnnpack.NewSubgraph(2)
	check(err)
	check(subgraph.Input(0, xnnpack.Tensor{Name: "x", Type: xnnpack.Float32, Shape: []int{1, 3}}))
	check(subgraph.Output(1, xnnpack.Tensor{Name: "y", Type: xnnpack.Float32, Shape: []int{1, 2}}))
	filter, err := subgraph.Tensor(xnnpack.Tensor{Name: "w", Type: xnnpack.Float32, Shape: []int{2, 3},
		Data: w.Bytes()})
	check(err)
	bias, err := subgraph.Tensor(xnnpack.Tensor{Name: "b", Type: xnnpack.Float32, Shape: []int{2}, Data: b.Bytes()})
	check(err)
	relu := xnnpack.Range{Min: 0, Max: float32(math.Inf(1))}
	check(subgraph.Add(xnnpack.FullyConnected{Input: 0, Filter: filter, Bias: bias, Output: 1,
		Activation: relu}))

	runtime, err := xnnpack.NewRuntime(subgraph, nil)
	check(err)
	defer runtime.Delete()
	check(subgraph.Delete())

	check(runtime.Reshape())
	check(runtime.Setup(map[xnnpack.ValueID][]byte{0: x.Bytes(), 1: y.Bytes()}))
	check(runtime.Invoke())
	fmt.Println(y.Float32s())
	// Output: [321.5 0]
}

func floats(values ...float32) *xnnpack.Buffer {
	b, err := xnnpack.NewBuffer(4 * len(values))
	check(err)
	copy(b.Float32s(), values)
	return b
}

func free(buffers ...*xnnpack.Buffer) {
	for _, b := range buffers {
		b.Free()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
