//go:build cgo

package xpwc_test

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"xpwc"
	"xpwc/xnnpack"
)

// A layer is a model of one fully connected layer, y = x * wᵀ, for rows of two floats. Its weights are the tensor of
// that name.
type layer string

// load creates the layer's runtime: its weights come from the session, and what is packed of them goes into its cache.
func (name layer) load(session *xpwc.Session) *xnnpack.Runtime {
	subgraph, err := xnnpack.NewSubgraph(2)
	check(err)
	row := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, 2}}
	check(subgraph.Input(0, row))
	check(subgraph.Output(1, row))
	weights := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{2, 2}}
	node := xnnpack.FullyConnected{Input: 0, Bias: xnnpack.InvalidValue, Output: 1}
	weights.Data, err = session.Load(string(name), xpwc.PackedAs(node.Packing(weights, xnnpack.Tensor{}, row, row)))
	check(err)
	node.Filter, err = subgraph.Tensor(weights)
	check(err)
	check(subgraph.Add(node))
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	check(err)
	check(subgraph.Delete())
	return runtime
}

// run executes a layer's runtime on one row.
func run(runtime *xnnpack.Runtime, x ...float32) []float32 {
	in, err := xnnpack.NewBuffer(4 * len(x))
	check(err)
	defer in.Free()
	out, err := xnnpack.NewBuffer(4 * len(x))
	check(err)
	defer out.Free()
	copy(in.Float32s(), x)
	check(runtime.Reshape())
	check(runtime.Setup(map[xnnpack.ValueID][]byte{0: in.Bytes(), 1: out.Bytes()}))
	check(runtime.Invoke())
	return append([]float32(nil), out.Float32s()...)
}

// matrix gives the bytes of a tensor of floats.
func matrix(values ...float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		bits := math.Float32bits(v)
		b = append(b, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return b
}

func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "xpwc")
	check(err)
	return dir, func() { _ = os.RemoveAll(dir) }
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A model is loaded twice, as by two starts of a program: the first packs its weights into the file, the second finds
// them.
func Example() {
	dir, remove := temporary()
	defer remove()
	tensors := xpwc.MapOf(map[string][]byte{"w": matrix(1, 2, 3, 4)})

	for _, start := range []string{"cold", "warm"} {
		cache, err := xpwc.Open(filepath.Join(dir, "model.xpwc"), nil)
		check(err)
		session, err := cache.NewSession(tensors)
		check(err)
		runtime := layer("w").load(session)
		check(session.Finalize()) // unpacked weights are freed, packed ones written in the background

		stats := cache.Stats()
		fmt.Println(start, session.Names(), "packed", stats.Packed.Entries, "found", stats.Hits.Entries)
		fmt.Println(run(runtime, 10, 1))

		check(runtime.Delete())
		check(session.Close())
		check(cache.Close()) // waits for the disk
	}
	// Output:
	// cold [w] packed 1 found 0
	// [12 34]
	// warm [w] packed 0 found 1
	// [12 34]
}

// Sessions of one cache share what they have in common; without a file, in memory alone.
func ExampleOpen_memory() {
	cache, err := xpwc.Open("", nil)
	check(err)
	defer cache.Close()
	tensors := xpwc.MapOf(map[string][]byte{"w": matrix(1, 2, 3, 4)})

	var runtimes []*xnnpack.Runtime
	for range 2 {
		session, err := cache.NewSession(tensors)
		check(err)
		defer session.Close()
		runtime := layer("w").load(session)
		err = session.Finalize()
		check(err)
		defer runtime.Delete()
		runtimes = append(runtimes, runtime)
	}
	fmt.Println(run(runtimes[0], 10, 1), run(runtimes[1], 10, 1))
	fmt.Println("packed", cache.Stats().Packed.Entries)
	// Output:
	// [12 34] [12 34]
	// packed 1
}

// nested is the data map of a subgraph: what it does not know is a tensor of the graph around it.
type nested struct{ inner, outer xpwc.DataMap }

func (m nested) Tensor(name string) (xpwc.Tensor, error) {
	t, err := m.inner.Tensor(name)
	if errors.Is(err, xpwc.ErrUnknownTensor) {
		return m.outer.Tensor(name)
	}
	return t, err
}

// A subgraph's body uses a weight of the graph around it, which is packed once for both.
func ExampleDataMap_nested() {
	cache, err := xpwc.Open("", nil)
	check(err)
	defer cache.Close()
	graph := xpwc.MapOf(map[string][]byte{"shared": matrix(1, 2, 3, 4)})
	body := xpwc.MapOf(map[string][]byte{"own": matrix(5, 6, 7, 8)})

	load := func(tensors xpwc.DataMap, names ...layer) (end func()) {
		session, err := cache.NewSession(tensors)
		check(err)
		var runtimes []*xnnpack.Runtime
		for _, name := range names {
			runtimes = append(runtimes, name.load(session))
		}
		check(session.Finalize())
		fmt.Println(session.Names())
		return func() {
			for _, r := range runtimes {
				check(r.Delete())
			}
			check(session.Close())
		}
	}
	defer load(graph, "shared")()
	defer load(nested{body, graph}, "shared", "own")()
	stats := cache.Stats()
	fmt.Println("packed", stats.Packed.Entries, "found", stats.Hits.Entries)
	// Output:
	// [shared]
	// [own shared]
	// packed 2 found 1
}

// Whatever keeps weights out of the file is counted with its reason.
func ExampleCache_Stats() {
	dir, remove := temporary()
	defer remove()
	cache, err := xpwc.Open(filepath.Join(dir, "model.xpwc"), &xpwc.Options{ReadOnly: true})
	check(err)
	defer cache.Close()
	session, err := cache.NewSession(xpwc.MapOf(map[string][]byte{"w": matrix(1, 2, 3, 4)}))
	check(err)
	defer session.Close()
	runtime := layer("w").load(session)
	defer runtime.Delete()
	err = session.Finalize()
	check(err)

	stats := cache.Stats()
	fmt.Println("packed into the file:", stats.Packed.Entries)
	for reason, count := range stats.Private {
		fmt.Println("into private memory:", count.Entries, "because the cache is", reason)
	}
	// Output:
	// packed into the file: 0
	// into private memory: 1 because the cache is read-only
}

// A logger is given commits and of whatever an operator may want to know.
func ExampleOptions() {
	dir, remove := temporary()
	defer remove()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutWhatVaries})
	cache, err := xpwc.Open(filepath.Join(dir, "model.xpwc"), &xpwc.Options{Logger: slog.New(handler)})
	check(err)
	session, err := cache.NewSession(xpwc.MapOf(map[string][]byte{"w": matrix(1, 2, 3, 4)}))
	check(err)
	runtime := layer("w").load(session)
	err = session.Finalize()
	check(err)
	check(runtime.Delete())
	check(session.Close())
	check(cache.Close())
	// Output:
	// level=INFO msg="a load took longer than mapping" reason=no-file entries=1
	// level=INFO msg="committed packed weights" generation=1 entries=1
}

// withoutWhatVaries leaves an event's time, place and sizes out of an example's output.
func withoutWhatVaries(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "cache", "bytes", "duration", "because":
		return slog.Attr{}
	}
	return a
}
