//go:build cgo

package executorch_test

import (
	"fmt"
	"os"
	"path/filepath"

	"xpwc"
	"xpwc/models/executorch"
	"xpwc/xnnpack"
)

// A program is run once with a cache, for 2 rows where its dynamic input takes up to 16.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "executorch")
	check(err)
	defer os.RemoveAll(dir)
	program, err := executorch.Open("testdata/programs/mlp_dyn_fp32.pte")
	check(err)
	method, err := program.Method("forward")
	check(err)
	cache, err := xpwc.Open(filepath.Join(dir, "mlp.xpwc"), nil)
	check(err)
	session, err := cache.NewSession(method.DataMap())
	check(err)
	subgraph, err := method.Subgraph(session)
	check(err)
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	check(err)
	check(session.Finalize())
	check(subgraph.Delete())

	in, out := method.Inputs()[0], method.Outputs()[0]
	fmt.Println(in.Name, in.Shape, in.Type, "dynamic:", in.Dynamic)
	check(runtime.ReshapeExternal(in.ID, []int{2, 64}))
	check(runtime.Reshape())
	shape, err := runtime.ExternalShape(out.ID)
	check(err)
	fmt.Println(out.Name, shape)
	x, err := xnnpack.NewBuffer(4 * 2 * 64)
	check(err)
	y, err := xnnpack.NewBuffer(4 * 2 * 16)
	check(err)
	check(runtime.Setup(map[xnnpack.ValueID][]byte{in.ID: x.Bytes(), out.ID: y.Bytes()}))
	check(runtime.Invoke())

	check(runtime.Delete())
	x.Free()
	y.Free()
	check(session.Close())
	fmt.Println("packed:", cache.Stats().Packed.Entries)
	check(cache.Close())
	check(program.Close())
	// Output:
	// input 0 [16 64] fp32 dynamic: true
	// output 0 [2 16]
	// packed: 2
}
