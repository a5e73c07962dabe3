// Package execution runs models: it creates the runtime of a model, with its packed weights in a cache or in memory,
// and measures how long that takes.
package execution

import (
	"errors"
	"time"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Times are how long the steps of loading a model took.
type Times struct {
	Open     time.Duration // the cache
	Load     time.Duration // the session, its tensors and the subgraph
	Create   time.Duration // the runtime, with packing
	Finalize time.Duration
}

// Total is how long loading took, from opening the cache to the finalized runtime.
func (t Times) Total() time.Duration { return t.Open + t.Load + t.Create + t.Finalize }

// An Execution is a model's runtime with its inputs and outputs.
type Execution struct {
	Cache   *xpwc.Cache // nil without one
	Pool    *xnnpack.Threadpool
	Runtime *xnnpack.Runtime
	Times   Times
	Faults  Faults // while loading
	Inputs  []*xnnpack.Buffer
	Outputs []*xnnpack.Buffer

	InputElements  []*Element // what Give takes
	OutputElements []*Element // what Output returns

	Model        models.Model
	outputShapes [][]int
	ready        bool
	closers      []func() error // in the order in which things were opened
}

// Load creates a runtime of the model, with its packed weights where the backing has them. The model must stay open
// until the execution is closed. XNNPACK is initialized and the threads are started before the clock is.
func Load(m models.Model, b Backing, threads int) (e *Execution, err error) {
	e = &Execution{Model: m}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
			e = nil
		}
	}()
	if e.InputElements, err = inputElements(m); err != nil {
		return e, err
	}
	if e.OutputElements, err = outputElements(m); err != nil {
		return e, err
	}
	if err := xnnpack.Initialize(); err != nil {
		return e, err
	}
	if threads != 1 {
		if e.Pool, err = xnnpack.NewThreadpool(threads); err != nil {
			return e, err
		}
		e.closers = append(e.closers, func() error { e.Pool.Close(); return nil })
	}
	before := PageFaults()
	err = b(e)
	e.Faults = PageFaults().Since(before)
	if err != nil {
		return e, err
	}
	return e, e.allocate()
}

// create makes the subgraph and of it the runtime; loading began at start.
func (e *Execution) create(l models.Loader, provider xnnpack.WeightsCache, start time.Time,
	finalize func() error) error {
	subgraph, err := e.Model.Subgraph(l)
	if err != nil {
		return err
	}
	e.Times.Load = time.Since(start)
	start = time.Now()
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: provider, Threadpool: e.Pool})
	e.Times.Create = time.Since(start)
	if err != nil {
		return errors.Join(err, subgraph.Delete(), finalize()) // the session may know why XNNPACK failed
	}
	e.Runtime = runtime
	e.closers = append(e.closers, runtime.Delete)
	start = time.Now()
	err = finalize()
	e.Times.Finalize = time.Since(start)
	return errors.Join(err, subgraph.Delete())
}

func (e *Execution) allocate() error {
	allocate := func(vs []models.Value) ([]*xnnpack.Buffer, error) {
		var buffers []*xnnpack.Buffer
		for _, v := range vs {
			n, err := v.ByteSize()
			if err != nil {
				return nil, err
			}
			b, err := xnnpack.NewBuffer(n)
			if err != nil {
				return nil, err
			}
			// In front: the runtime, which is closed first, uses them.
			e.closers = append([]func() error{func() error { b.Free(); return nil }}, e.closers...)
			buffers = append(buffers, b)
		}
		return buffers, nil
	}
	var err error
	if e.Inputs, err = allocate(e.Model.Inputs()); err != nil {
		return err
	}
	for _, v := range e.Model.Outputs() {
		e.outputShapes = append(e.outputShapes, v.Shape)
	}
	e.Outputs, err = allocate(e.Model.Outputs())
	return err
}

// ShapeInput gives a dynamic input a shape, before the first inference. XNNPACK does not check it: only its first
// dimension may differ from the model's, which is the largest. The content is then at the beginning of the buffer.
func (e *Execution) ShapeInput(i int, shape []int) error {
	return e.Runtime.ReshapeExternal(e.Model.Inputs()[i].ID, shape)
}

// Output returns the content of an output and its shape, after an inference.
func (e *Execution) Output(i int) (content []byte, shape []int, err error) {
	shape = e.outputShapes[i]
	n, err := e.Model.Outputs()[i].Type.ByteSize(shape)
	if err != nil {
		return nil, nil, err
	}
	return e.Outputs[i].Bytes()[:n], shape, nil
}

// Infer computes the outputs. The first time it also plans the runtime's memory.
func (e *Execution) Infer() (time.Duration, error) {
	start := time.Now()
	if !e.ready {
		if err := e.setup(); err != nil {
			return 0, err
		}
		e.ready = true
	}
	err := e.Runtime.Invoke()
	return time.Since(start), err
}

func (e *Execution) setup() error {
	if err := e.Runtime.Reshape(); err != nil {
		return err
	}
	for i, v := range e.Model.Outputs() {
		if !v.Dynamic {
			continue
		}
		shape, err := e.Runtime.ExternalShape(v.ID)
		if err != nil {
			return err
		}
		e.outputShapes[i] = shape
	}
	external := map[xnnpack.ValueID][]byte{}
	for i, v := range e.Model.Inputs() {
		external[v.ID] = e.Inputs[i].Bytes()
	}
	for i, v := range e.Model.Outputs() {
		external[v.ID] = e.Outputs[i].Bytes()
	}
	return e.Runtime.Setup(external)
}

// Close deletes the runtime and closes what it was made with. An error of saving the cache is among those it returns.
func (e *Execution) Close() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	e.closers = nil
	return errors.Join(errs...)
}
