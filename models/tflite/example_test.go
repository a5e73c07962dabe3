package tflite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"xpwc"
	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

var (
	pose   = filepath.Join("..", "..", "third_party", "models", "pose_landmark_lite.tflite")
	selfie = filepath.Join("..", "..", "third_party", "models", "selfie_segmentation.tflite")
)

// A model is loaded twice, as by two processes: the first packs its weights into the cache file, the second maps them.
func Example() {
	dir, err := os.MkdirTemp("", "tflite")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for range 2 {
		model, err := tflite.Load(pose, filepath.Join(dir, "pose.xpwc"), nil)
		if err != nil {
			log.Fatal(err)
		}
		black := make([]float32, 256*256*3)
		outputs, err := model.Run(context.Background(), black)
		if err != nil {
			log.Fatal(err)
		}
		landmarks, err := inference.Output[float32](outputs[0])
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(outputs[0].Name, outputs[0].Shape, len(landmarks))
		if err := model.Close(); err != nil { // it waits until the file is written
			log.Fatal(err)
		}
		stats := model.Cache().Stats()
		fmt.Println("packed:", stats.Packed.Entries > 0, "found:", stats.Hits.Entries > 0)
	}
	// Output:
	// Identity [1 195] 195
	// packed: true found: false
	// Identity [1 195] 195
	// packed: false found: true
}

func ExampleLoad() {
	model, err := tflite.Load(selfie, "", &tflite.Options{Options: inference.Options{Instances: 2}})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	for _, v := range model.Inputs() {
		fmt.Printf("%s: []%v of %v\n", v.Name, v.Element(), v.Shape)
	}
	_, err = model.Run(context.Background(), make([]float32, 7))
	fmt.Println(errors.Is(err, inference.ErrInputSize))
	// Output:
	// input_1: []float32 of [1 256 256 3]
	// true
}

// Load in steps, for a host that gives XNNPACK memory, a thread pool or a workspace of its own, or that has one cache
// for several models.
func ExampleModel_Subgraph() {
	cache, err := xpwc.Open("", nil) // in memory, or a file
	if err != nil {
		log.Fatal(err)
	}
	err = segment(cache, selfie)
	if err := errors.Join(err, cache.Close()); err != nil { // Close waits for the disk
		log.Fatal(err)
	}
	// Output:
	// input_1 [1 256 256 3]
	// activation_10 [1 256 256 1]
}

// segment runs the model once. What was made last is deleted first.
func segment(cache *xpwc.Cache, path string) (err error) {
	closing := func(close func() error) { err = errors.Join(err, close()) }

	model, err := tflite.Open(path, nil)
	if err != nil {
		return err
	}
	defer closing(model.Close)

	values := map[xnnpack.ValueID][]byte{}
	for _, v := range append(model.Inputs(), model.Outputs()...) {
		buffer, err := newBuffer(v) // of zeros: a black picture
		if err != nil {
			return err
		}
		defer buffer.Free()
		values[v.ID] = buffer.Bytes()
		fmt.Println(v.Name, v.Shape)
	}

	session, err := cache.NewSession(model.DataMap())
	if err != nil {
		return err
	}
	defer closing(session.Close)
	runtime, err := newRuntime(model, session)
	if err != nil {
		return err
	}
	defer closing(runtime.Delete)

	if err := runtime.Reshape(); err != nil {
		return err
	}
	if err := runtime.Setup(values); err != nil {
		return err
	}
	if err := runtime.Invoke(); err != nil {
		return err
	}
	return session.Err() // the disk may have lost weights that were not committed yet
}

func newBuffer(v models.Value) (*xnnpack.Buffer, error) {
	size, err := v.ByteSize()
	if err != nil {
		return nil, err
	}
	return xnnpack.NewBuffer(size)
}

// newRuntime creates the runtime of a model through a session, which it finalizes.
func newRuntime(m models.Model, session *xpwc.Session) (*xnnpack.Runtime, error) {
	subgraph, err := m.Subgraph(session) // loads the constants through the session
	if err != nil {
		return nil, err
	}
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	// Finalize frees what was packed; the disk is written in the background. It may know why XNNPACK failed.
	err = errors.Join(err, session.Finalize(), subgraph.Delete())
	if err != nil && runtime != nil {
		return nil, errors.Join(err, runtime.Delete())
	}
	return runtime, err
}
