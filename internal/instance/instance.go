// Package instance makes models ready to compute: it creates the runtime of a model, with its packed weights in a cache
// or in memory, and the memory of its inputs and outputs. Package [xpwc/inference] is its face for programs;
// internal/execution measures with it.
package instance

import (
	"errors"
	"fmt"
	"slices"
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

// ErrOutputShape: with an input of fewer rows, an output would have another shape than the model says that it always
// has.
var ErrOutputShape = errors.New("an output of fixed shape would have another")

// An Instance is a model's runtime with the memory of its inputs and outputs. It is for one goroutine at a time.
type Instance struct {
	Model   models.Model
	Cache   *xpwc.Cache // nil without one
	Pool    *xnnpack.Threadpool
	Runtime *xnnpack.Runtime
	Times   Times
	Inputs  []*xnnpack.Buffer // each has room for the largest shape
	Outputs []*xnnpack.Buffer

	session      *xpwc.Session // nil without a cache
	inputShapes  [][]int
	outputShapes [][]int
	ready        bool
	closers      []func() error // in the order in which things were opened
}

// New creates a runtime of the model, with its packed weights where the backing has them. The model must stay open
// until the instance is closed, and its values must have elements (models.ErrElement). threads is the number that
// computes, as [xnnpack.NewThreadpool] has it. XNNPACK is initialized and the threads are started before the clock is.
func New(m models.Model, b Backing, threads int) (e *Instance, err error) {
	e = &Instance{Model: m}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
			e = nil
		}
	}()
	if err := models.CheckElements(m); err != nil {
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
	if err := b(e); err != nil {
		return e, err
	}
	return e, e.allocate()
}

// create makes the subgraph and of it the runtime; loading began at start.
func (e *Instance) create(l models.Loader, provider xnnpack.WeightsCache, start time.Time,
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

func (e *Instance) allocate() (err error) {
	if e.Inputs, e.inputShapes, err = e.buffers(e.Model.Inputs()); err != nil {
		return err
	}
	e.Outputs, e.outputShapes, err = e.buffers(e.Model.Outputs())
	return err
}

// buffers allocates memory for values in their largest shapes.
func (e *Instance) buffers(of []models.Value) (buffers []*xnnpack.Buffer, shapes [][]int, err error) {
	for _, v := range of {
		n, err := v.ByteSize()
		if err != nil {
			return nil, nil, err
		}
		b, err := xnnpack.NewBuffer(n)
		if err != nil {
			return nil, nil, err
		}
		// In front: the runtime, which is closed first, uses them.
		e.closers = append([]func() error{func() error { b.Free(); return nil }}, e.closers...)
		buffers, shapes = append(buffers, b), append(shapes, v.Shape)
	}
	return buffers, shapes, nil
}

// ShapeInput gives a dynamic input a shape, for the next inference and all after it. XNNPACK does not check it: only
// its first dimension may differ from the model's, which is the largest. The content is then at the beginning of the
// buffer.
func (e *Instance) ShapeInput(i int, shape []int) error {
	if slices.Equal(shape, e.inputShapes[i]) {
		return nil
	}
	e.ready = false
	if err := e.Runtime.ReshapeExternal(e.Model.Inputs()[i].ID, shape); err != nil {
		return err
	}
	e.inputShapes[i] = slices.Clone(shape)
	return nil
}

// OutputShape returns the shape of an output, after an inference.
func (e *Instance) OutputShape(i int) []int { return e.outputShapes[i] }

// Output returns the content of an output and its shape, after an inference.
func (e *Instance) Output(i int) (content []byte, shape []int, err error) {
	shape = e.outputShapes[i]
	n, err := e.Model.Outputs()[i].Type.ByteSize(shape)
	if err != nil {
		return nil, nil, err
	}
	return e.Outputs[i].Bytes()[:n], shape, nil
}

// Infer computes the outputs. The first time, and when an input has got another shape, it also plans the runtime's
// memory. The error matches [xpwc.ErrLost] if weights that the runtime uses may be lost.
func (e *Instance) Infer() (time.Duration, error) {
	start := time.Now()
	if err := e.Prepare(); err != nil {
		return 0, err
	}
	err := e.Runtime.Invoke()
	return time.Since(start), errors.Join(err, e.Err())
}

// Err returns [xpwc.ErrLost] once weights that the runtime uses may be lost: outputs are wrong then.
func (e *Instance) Err() error {
	if e.session == nil {
		return nil
	}
	return e.session.Err()
}

// Prepare plans the runtime's memory for the inputs' shapes, so that the next inference need not.
func (e *Instance) Prepare() error {
	if e.ready {
		return nil
	}
	if err := e.Runtime.Reshape(); err != nil {
		return err
	}
	for i, v := range e.Model.Outputs() {
		shape, err := e.Runtime.ExternalShape(v.ID)
		if err != nil {
			return err
		}
		if v.Dynamic {
			e.outputShapes[i] = shape
			continue
		}
		n, err := v.Type.ByteSize(shape)
		if err != nil {
			return err
		}
		if n != len(e.Outputs[i].Bytes()) { // the rest would be what an earlier inference left there
			return fmt.Errorf("output %q: %w: %v, not %v", v.Name, ErrOutputShape, shape, v.Shape)
		}
	}
	external := map[xnnpack.ValueID][]byte{}
	for i, v := range e.Model.Inputs() {
		external[v.ID] = e.Inputs[i].Bytes()
	}
	for i, v := range e.Model.Outputs() {
		external[v.ID] = e.Outputs[i].Bytes()
	}
	if err := e.Runtime.Setup(external); err != nil {
		return err
	}
	e.ready = true
	return nil
}

// Close deletes the runtime and closes what it was made with. An error of saving the cache is among those it returns.
func (e *Instance) Close() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	e.closers = nil
	return errors.Join(errs...)
}
