// Package instance makes models ready to compute: it creates the runtime of a model, with its packed weights in a cache
// or in memory, and the memory of its inputs and outputs. Package [xpwc/models/inference] is its face for programs;
// internal/execution measures with it.
package instance

import (
	"errors"
	"fmt"
	goruntime "runtime"
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

// ErrInputShape: the model does not compute with inputs of these shapes.
var ErrInputShape = errors.New("the model does not take inputs of these shapes")

// ErrStatesChanged: an inference failed when it had changed some of the model's states already.
var ErrStatesChanged = errors.New("an inference failed after it had changed the model's states: reset them")

// An Instance is a model's runtimes with the memory of its inputs and outputs. It is for one goroutine at a time.
type Instance struct {
	Model   models.Model
	Cache   *xpwc.Cache // nil without one
	Pool    *xnnpack.Threadpool
	Times   Times
	Inputs  []*xnnpack.Buffer // each has room for the largest shape
	Outputs []*xnnpack.Buffer

	*plan               // for the present shapes of the inputs
	plans    []*plan    // the latest ones, the oldest first
	runtimes []*runtime // of all plans
	between  []*xnnpack.Buffer
	states   []state
	unset    bool    // the states are to be what they begin with
	spoiled  error   // matches ErrStatesChanged until the states are set; nil of states that are whole
	first    [][]int // shapes of the inputs; nil means the largest
	place    func(models.Model) (*place, error)
	shared   *xnnpack.Workspace // of runtimes that run one after the other; nil of a single one
	ready    bool
	yielded  time.Time
	foreign  map[int]bool   // buffers of UseBuffers, as stages name them
	closers  []func() error // in the order in which things were opened
}

// A state is a buffer between stages that keeps its content from one inference to the next.
type state struct {
	buffer  int // among those between
	initial func(dst []byte) error
}

// New creates the runtimes of the model, with their packed weights where the backing has them. The model must stay open
// until the instance is closed, and its values must have elements (models.ErrElement). n is the number of threads that
// compute, as [xnnpack.NewThreadpool] has it; more than one are threads of a pool that all instances of this number
// share. XNNPACK is initialized and the threads are started before the clock is.
func New(m models.Model, b Backing, n int) (*Instance, error) { return NewShaped(m, b, n, nil) }

// NewShaped is New for inputs of these shapes at first, which a [models.Resizable] computes with; nil are the largest.
// The error matches ErrInputShape, too.
func NewShaped(m models.Model, b Backing, n int, shapes [][]int) (e *Instance, err error) {
	e = &Instance{Model: m, foreign: map[int]bool{}, first: shapes}
	done := false
	defer func() {
		if !done { // also after a panic of the model's
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
	if n != 1 {
		var giveBack func()
		if e.Pool, giveBack, err = threads(n); err != nil {
			return e, err
		}
		e.closers = append(e.closers, func() error { giveBack(); return nil })
	}
	if err := e.allocate(); err != nil { // before the runtime, which uses it, so that it is closed after that
		return e, err
	}
	err = b(e)
	done = err == nil
	return e, err
}

// create makes the subgraphs and of each a runtime, in the places that next returns.
func (e *Instance) create(next func(models.Model) (*place, error)) error {
	m := e.Model
	if e.first != nil {
		var err error
		if m, err = e.resized(e.first); err != nil {
			return err
		}
	}
	stages, between := models.StagesOf(m)
	if err := e.growBetween(between); err != nil {
		return err
	}
	for i, buf := range between {
		if buf.Initial != nil {
			e.states = append(e.states, state{i, buf.Initial})
		}
	}
	e.unset = len(e.states) > 0
	if len(stages) > 1 || e.Dynamic() {
		var err error
		if e.shared, err = xnnpack.NewWorkspace(); err != nil {
			return err
		}
		e.closers = append(e.closers, func() error { e.shared.Close(); return nil })
	}
	e.place = next
	small := &smallModel{}
	if r, ok := m.(models.Resizable); ok && e.Dynamic() && e.first == nil {
		small = newSmallModel(r)
	}
	p, err := e.planOf(m, stages, small)
	if err != nil {
		return err
	}
	if err := e.keepSmall(small); err != nil {
		return err
	}
	e.use(p)
	return nil
}

func (e *Instance) allocate() (err error) {
	if e.Inputs, err = e.buffers(e.Model.Inputs()); err != nil {
		return err
	}
	e.Outputs, err = e.buffers(e.Model.Outputs())
	return err
}

// buffer returns one as stages name them.
func (e *Instance) buffer(i int) *xnnpack.Buffer {
	if i < len(e.Inputs) {
		return e.Inputs[i]
	}
	if i -= len(e.Inputs); i < len(e.Outputs) {
		return e.Outputs[i]
	}
	return e.between[i-len(e.Outputs)]
}

// contents returns buffers as stages name them.
func (e *Instance) contents(indices []int) [][]byte {
	out := make([][]byte, len(indices))
	for k, i := range indices {
		out[k] = e.buffer(i).Bytes()
	}
	return out
}

// buffers allocates memory for values in their largest shapes.
func (e *Instance) buffers(values []models.Value) (buffers []*xnnpack.Buffer, err error) {
	for _, v := range values {
		n, err := v.ByteSize()
		if err != nil {
			return nil, err
		}
		b, err := xnnpack.NewBuffer(n)
		if err != nil {
			return nil, err
		}
		e.closers = append(e.closers, func() error { b.Free(); return nil })
		buffers = append(buffers, b)
	}
	return buffers, nil
}

// UseBuffers puts buffers in the place of inputs and outputs, by their indices, from the next inference on. They have
// room for the largest shapes, and they stay the caller's, who must not free them while the instance uses them. What
// the instance had made for these values is freed. An output may lie where an input does if [models.InPlace] has it
// so.
func (e *Instance) UseBuffers(inputs, outputs map[int]*xnnpack.Buffer) {
	for i, b := range inputs {
		e.useBuffer(e.Inputs, i, 0, b)
	}
	for i, b := range outputs {
		e.useBuffer(e.Outputs, i, len(e.Inputs), b)
	}
}

// useBuffer puts one in the place of buffer i of a list, the first of which has this number.
func (e *Instance) useBuffer(list []*xnnpack.Buffer, i, first int, b *xnnpack.Buffer) {
	if list[i] == b {
		return
	}
	if !e.foreign[first+i] {
		list[i].Free()
	}
	e.foreign[first+i] = true
	list[i], e.ready = b, false
}

// UseStates puts buffers of the caller's in the place of the model's states, as UseBuffers does: one for each buffer
// between stages that has an Initial, of its size. The content is what the next inference begins with.
func (e *Instance) UseStates(buffers []*xnnpack.Buffer) {
	e.spoiled, e.unset = nil, false
	for i, s := range e.states {
		e.useBuffer(e.between, s.buffer, len(e.Inputs)+len(e.Outputs), buffers[i])
	}
}

// InputBytes returns how many bytes input i has in its element, in the largest shape.
func (e *Instance) InputBytes(i int) int {
	if v := e.Model.Inputs()[i]; v.Widened() {
		return len(e.Inputs[i].Bytes()) / models.Float32.Size() * v.Declared.Size()
	}
	return len(e.Inputs[i].Bytes())
}

// Give sets the content of input i, little-endian, in its element. It may be shorter than the largest shape.
func (e *Instance) Give(i int, content []byte) error {
	if v := e.Model.Inputs()[i]; v.Widened() {
		if err := v.Declared.Widen(e.Inputs[i].Bytes(), content); err != nil {
			return fmt.Errorf("input %q: %w", v.Name, err)
		}
		return nil
	}
	copy(e.Inputs[i].Bytes(), content)
	return nil
}

// OutputShape returns the shape of an output for the present shapes of the inputs.
func (e *Instance) OutputShape(i int) []int { return e.outputShapes[i] }

// ComputedShape returns the shape of an output to XNNPACK, after an inference. What Go computes has the model's.
func (e *Instance) ComputedShape(i int) ([]int, error) {
	for _, s := range e.stages {
		if k := slices.Index(s.Outputs, len(e.Inputs)+i); k >= 0 && s.runtime != nil {
			return s.runtime.ExternalShape(xnnpack.ValueID(len(s.Inputs) + k))
		}
	}
	return e.outputShapes[i], nil
}

// Output returns the content of an output and its shape, after an inference.
func (e *Instance) Output(i int) (content []byte, shape []int, err error) {
	shape = e.outputShapes[i]
	n, err := e.Model.Outputs()[i].SizeAs(shape)
	if err != nil {
		return nil, nil, err
	}
	return e.Outputs[i].Bytes()[:n], shape, nil
}

// longestTurn is how long stages run without a yield.
const longestTurn = 2 * time.Millisecond

// yield lets other goroutines run from time to time. Go's scheduler preempts a goroutine that spent 10 ms in C, even if
// no other one waits, and then polls it every 20 µs for a while. That costs a tenth of the processor time of a language
// model's token.
func (e *Instance) yield() {
	if time.Since(e.yielded) > longestTurn {
		goruntime.Gosched()
		e.yielded = time.Now()
	}
}

// Infer computes the outputs. The first time, and when an input has got another shape, it also plans the runtimes'
// memory. The error matches [xpwc.ErrLost] if weights that the runtime uses may be lost, and [ErrStatesChanged] if the
// states are neither what they were nor the next ones: so does that of each later inference until Reset or UseStates.
func (e *Instance) Infer() (time.Duration, error) {
	start := time.Now()
	if e.spoiled != nil {
		return 0, e.spoiled
	}
	if e.unset {
		if err := e.Reset(); err != nil {
			return 0, err
		}
	}
	if err := e.Prepare(); err != nil {
		return 0, err
	}
	for k := range e.stages {
		s := &e.stages[k]
		e.yield()
		var err error
		switch {
		case !e.guarded(s):
		case s.runtime != nil:
			err = s.runtime.Invoke()
		default:
			err = s.Compute(s.inputs, s.outputs)
		}
		if err != nil {
			return 0, errors.Join(e.failed(k, err), e.Err())
		}
	}
	return time.Since(start), e.Err()
}

// guarded reports whether a stage is computed.
func (e *Instance) guarded(s *stage) bool {
	return !slices.ContainsFunc(s.Guards, func(g models.Guard) bool {
		return (e.buffer(g.Buffer).Bytes()[0] != 0) != g.Holds
	})
}

// failed returns the error of a stage. The stage itself has changed no state: what writes into one looks at its indices
// first.
func (e *Instance) failed(stage int, err error) error {
	first := len(e.Inputs) + len(e.Outputs)
	for _, s := range e.states {
		for _, done := range e.stages[:stage] {
			if slices.Contains(done.Outputs, first+s.buffer) {
				e.spoiled = fmt.Errorf("%w: %w", ErrStatesChanged, err)
				return e.spoiled
			}
		}
	}
	return err
}

// Stateful reports whether the model keeps states from one inference to the next.
func (e *Instance) Stateful() bool { return len(e.states) > 0 }

// Reset makes the model's states what they begin with.
func (e *Instance) Reset() error {
	for _, s := range e.states {
		if err := s.initial(e.between[s.buffer].Bytes()); err != nil {
			return err
		}
	}
	e.spoiled, e.unset = nil, false
	return nil
}

// Err returns [xpwc.ErrLost] once weights that the runtime uses may be lost: outputs are wrong then. The first session
// looks at the cache file for all of them.
func (e *Instance) Err() error {
	var errs []error
	for _, session := range e.sessions() {
		ask := session.Lost
		if errs == nil {
			ask = session.Err
		}
		errs = append(errs, ask())
	}
	return errors.Join(errs...)
}

// Explain returns what the creation of the runtimes took beyond mapping, and why.
func (e *Instance) Explain() (sum xpwc.Explanation) {
	for _, session := range e.sessions() {
		sum.Add(session.Explain())
	}
	return sum
}

// Prepare plans the runtime's memory for the inputs' shapes, so that the next inference need not.
func (e *Instance) Prepare() error {
	if e.ready {
		return nil
	}
	for i := range e.stages {
		s := &e.stages[i]
		s.inputs, s.outputs = e.contents(s.Inputs), e.contents(s.Outputs)
		if s.runtime == nil {
			continue
		}
		if err := s.runtime.reshape(s.Stage); err != nil {
			return err
		}
		external := map[xnnpack.ValueID][]byte{}
		for id, content := range slices.Concat(s.inputs, s.outputs) {
			external[xnnpack.ValueID(id)] = content
		}
		if err := s.runtime.Setup(external); err != nil {
			return err
		}
	}
	e.ready = true
	return nil
}

// Close deletes the runtimes and closes what it was made with. An error of saving the cache is among those it returns.
func (e *Instance) Close() error {
	e.plans = nil
	errs := []error{e.closeUnused()}
	for i := len(e.closers) - 1; i >= 0; i-- {
		errs = append(errs, e.closers[i]())
	}
	e.closers = nil
	for i, b := range e.between {
		if !e.foreign[len(e.Inputs)+len(e.Outputs)+i] {
			b.Free()
		}
	}
	e.between = nil
	return errors.Join(errs...)
}
