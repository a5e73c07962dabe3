package tflite_test

import (
	"fmt"
	"log"
	"path/filepath"

	"xpwc"
	"xpwc/tflite"
	"xpwc/xnnpack"
)

// A model is run with its packed weights in a cache, here one in memory.
func Example() {
	cache, err := xpwc.Open("", nil)
	check(err)
	defer cache.Close()
	model, err := tflite.Open(filepath.Join("..", "third_party", "models", "selfie_segmentation.tflite"))
	check(err)
	defer model.Close()

	session, err := cache.NewSession(model.DataMap())
	check(err)
	defer session.Close()
	subgraph, err := model.Subgraph(session)
	check(err)
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	check(err)
	defer runtime.Delete()
	check(subgraph.Delete())
	err = session.Finalize()
	check(err)

	check(runtime.Reshape())
	values := map[xnnpack.ValueID][]byte{}
	for _, v := range append(model.Inputs(), model.Outputs()...) {
		size, err := v.ByteSize()
		check(err)
		buffer, err := xnnpack.NewBuffer(size) // of zeros: a black picture
		check(err)
		defer buffer.Free()
		values[v.ID] = buffer.Bytes()
		fmt.Println(v.Name, v.Shape)
	}
	check(runtime.Setup(values))
	check(runtime.Invoke())
	// Output:
	// input_1 [1 256 256 3]
	// activation_10 [1 256 256 1]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
