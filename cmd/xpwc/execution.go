package main

import (
	"errors"
	"time"

	"xpwc"
	"xpwc/xnnpack"
)

// loadTimes is what bringing a model to where it can be executed took.
type loadTimes struct {
	open     time.Duration // the cache
	load     time.Duration // the session, its tensors and the subgraph
	create   time.Duration // the runtime, with packing
	finalize time.Duration
}

func (t loadTimes) total() time.Duration { return t.open + t.load + t.create + t.finalize }

// execution is a model's runtime with its inputs and outputs.
type execution struct {
	cache   *xpwc.Cache // nil without one
	pool    *xnnpack.Threadpool
	runtime *xnnpack.Runtime
	times   loadTimes
	faults  faults // while loading
	inputs  []*xnnpack.Buffer
	outputs []*xnnpack.Buffer

	model   model
	ready   bool
	closers []func() error // in the order in which things were opened
}

// load creates a runtime of the model, with its packed weights where the backing has them. The model must stay open until the execution
// is closed. XNNPACK is initialized and the threads are started before the clock is.
func load(m model, b backing, threads int) (e *execution, err error) {
	e = &execution{model: m}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
			e = nil
		}
	}()
	if err := xnnpack.Initialize(); err != nil {
		return e, err
	}
	if threads != 1 {
		if e.pool, err = xnnpack.NewThreadpool(threads); err != nil {
			return e, err
		}
		e.closers = append(e.closers, func() error { e.pool.Close(); return nil })
	}
	before := pageFaults()
	err = b(e)
	e.faults = pageFaults().since(before)
	if err != nil {
		return e, err
	}
	return e, e.allocate()
}

// create makes the subgraph and of it the runtime; loading began at start.
func (e *execution) create(l loader, provider xnnpack.WeightsCache, start time.Time, finalize func() error) error {
	subgraph, err := e.model.subgraph(l)
	if err != nil {
		return err
	}
	e.times.load = time.Since(start)
	start = time.Now()
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: provider, Threadpool: e.pool})
	e.times.create = time.Since(start)
	if err != nil {
		return errors.Join(err, subgraph.Delete(), finalize()) // why XNNPACK failed may be for the session to tell
	}
	e.runtime = runtime
	e.closers = append(e.closers, runtime.Delete)
	start = time.Now()
	err = finalize()
	e.times.finalize = time.Since(start)
	return errors.Join(err, subgraph.Delete())
}

func (e *execution) allocate() error {
	allocate := func(vs []value) ([]*xnnpack.Buffer, error) {
		var buffers []*xnnpack.Buffer
		for _, v := range vs {
			n, err := v.size()
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
	if e.inputs, err = allocate(e.model.inputs()); err != nil {
		return err
	}
	e.outputs, err = allocate(e.model.outputs())
	return err
}

// infer computes the outputs. The first time it also plans the runtime's memory.
func (e *execution) infer() (time.Duration, error) {
	start := time.Now()
	if !e.ready {
		if err := e.setup(); err != nil {
			return 0, err
		}
		e.ready = true
	}
	err := e.runtime.Invoke()
	return time.Since(start), err
}

func (e *execution) setup() error {
	if err := e.runtime.Reshape(); err != nil {
		return err
	}
	external := map[xnnpack.ValueID][]byte{}
	for i, v := range e.model.inputs() {
		external[v.id] = e.inputs[i].Bytes()
	}
	for i, v := range e.model.outputs() {
		external[v.id] = e.outputs[i].Bytes()
	}
	return e.runtime.Setup(external)
}

// Close deletes the runtime and closes what it was made with. An error of saving the cache is among those it returns.
func (e *execution) Close() error {
	var errs []error
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	e.closers = nil
	return errors.Join(errs...)
}

// fillKnuth gives each input the numbers x[i] = float32(uint32(i*2654435761)) / 2^32, Knuth's multiplicative hash of the index.
func (e *execution) fillKnuth() {
	for _, b := range e.inputs {
		floats := b.Float32s()
		for i := range floats {
			floats[i] = float32(uint32(i)*2654435761) / (1 << 32)
		}
	}
}
