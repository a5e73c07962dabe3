package inference

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Errors of [Runner.Run], found with errors.Is before anything is computed. Their messages name the input and what
// it takes.
var (
	// ErrInputCount: the model takes another number of inputs.
	ErrInputCount = errors.New("wrong number of inputs")
	// ErrInputType: an input is no slice, or one of another type.
	ErrInputType = errors.New("wrong type of input")
	// ErrInputSize: an input has another number of elements than its shape.
	ErrInputSize = errors.New("wrong size of input")
)

// ErrInputShape is an error of [Runner.Run]: the model does not compute with inputs of these shapes. The message has
// the reason, and the largest shapes.
var ErrInputShape = instance.ErrInputShape

// ErrStatesChanged is an error of [Runner.Run] of a model with states: a Run failed when it had changed some of them,
// for instance because an index was out of range. They are of no use then, and all Runs fail until [Runner.Reset].
var ErrStatesChanged = instance.ErrStatesChanged

// A Tensor is an input with its shape. The other inputs of [Runner.Run] have theirs from the number of their elements.
type Tensor struct {
	Shape []int // outermost first
	Data  any   // the elements row by row, a []float32 for instance
}

// A Runner is a model that is ready to run. Its methods may be called from many goroutines; as many Runs as it has
// instances compute at the same time, and further ones wait for their turn. It must be closed.
type Runner struct {
	options Options
	cache   *xpwc.Cache
	turns   chan struct{} // has one for each Run that may begin; waiting ones are served in order
	ended   chan struct{} // closed by Close

	change sync.Mutex // one Reload or Close at a time

	mu      sync.Mutex // of what follows, and of versions; nothing else is locked and nothing waits while it is held
	current *version   // the one in force, or that was when the Runner was closed
	stats   Stats
}

// Stats has what a [Runner] does, and what it has done since it was loaded.
type Stats struct {
	Instances int // how many Runs can compute at the same time
	Running   int // Runs that compute now
	Waiting   int // Runs that wait for their turn now

	Runs      int64 // that computed their outputs
	Failed    int64 // Runs that had their turn and returned an error
	Abandoned int64 // Runs that did not wait for their turn until it came: their context was done, or the Runner closed
	// Waited is how long Runs waited for their turn, all together.
	Waited time.Duration

	Reloads       int64 // that put another version in force
	FailedReloads int64 // of models that could not be loaded, or panicked; the version before stayed
}

// A Result is an output that a Run computed. It is the caller's own: no other Run and no Close changes it.
type Result struct {
	Name string
	// Shape gives the dimensions, outermost first. It is the model's, except of a value that is
	// [models.Value.Dynamic]: then it is computed from the shapes of the inputs.
	Shape []int
	// Data are the elements row by row, []float32 for instance, as the package's documentation has it.
	Data any
}

// ErrOutputType is an error of [Output].
var ErrOutputType = errors.New("wrong type of output")

// Output returns the elements of a result, row by row: a []float32 with Output[float32]. The error matches
// [ErrOutputType], and names the type of the elements.
func Output[T xnnpack.Number | bool](r Result) ([]T, error) {
	data, ok := r.Data.([]T)
	if !ok {
		return nil, fmt.Errorf("%w %q: %T, not %T", ErrOutputType, r.Name, r.Data, data)
	}
	return data, nil
}

// Inputs returns what Run takes, in this order.
func (r *Runner) Inputs() []models.Value { return slices.Clone(r.inForce().inputs) }

// Outputs returns what Run returns, in this order.
func (r *Runner) Outputs() []models.Value { return slices.Clone(r.inForce().outputs) }

func (r *Runner) inForce() *version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Cache returns the cache with the packed weights, for its Stats and Save, and for package metrics. It is that of
// Options.Cache, or else closed with the Runner, and Stats can be asked for afterwards.
func (r *Runner) Cache() *xpwc.Cache { return r.cache }

// Stats returns what the Runner does and has done.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Instances, s.Running = r.options.Instances, r.options.Instances-len(r.turns)
	return s
}

// Run waits for its turn and computes the outputs. Each input is a slice of its value's type, or a [Tensor] with one;
// its elements are copied, row by row. It has as many as the value's shape, or fewer if the value is
// [models.Value.Dynamic]. The length of a slice is then its first dimension or, if that cannot be smaller, the only one
// that can; any other shape needs a Tensor. A Run with other shapes than the one before, of the same instance, takes
// the time to plan the model and its memory anew; an instance keeps the plans of the last few shapes.
//
// When ctx is done, a Run that waits returns its error; one that computes goes on.
//
// Errors: ErrInputCount, ErrInputType, ErrInputSize, ErrInputShape, ErrStatesChanged; [xpwc.ErrClosed] after Close;
// [xpwc.ErrLost] if packed weights may be lost, as [xpwc.Session.Err] has it: load the model again; and XNNPACK's
// errors, if inputs do not fit together. What must not be wrong on a failing disk of another system than Linux, or
// under overlayfs, is computed after [xpwc.Cache.Save].
func (r *Runner) Run(ctx context.Context, inputs ...any) ([]Result, error) {
	return r.RunInto(ctx, nil, inputs...)
}

// RunInto is Run, with results where the caller has memory for them, as append has it: results of an earlier Run, or
// ones whose Data are slices of the outputs' types. What Data has room for is written there; where it has none, or is
// of another type, there is new memory. With an error, what the memory has is undefined.
func (r *Runner) RunInto(ctx context.Context, dst []Result, inputs ...any) ([]Result, error) {
	v, i, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer r.end(v, i)
	results, err := v.compute(i, dst, inputs)
	r.count(func(s *Stats) {
		if err != nil {
			s.Failed++
		} else {
			s.Runs++
		}
	})
	return results, err
}

func (r *Runner) count(change func(s *Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.stats)
}

// begin waits for the turn of a Run, and returns an instance for it alone.
func (r *Runner) begin(ctx context.Context) (*version, *instance.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("run: %w", r.abandoned(err))
	}
	select {
	case <-r.turns:
	default:
		if err := r.wait(ctx); err != nil {
			return nil, nil, fmt.Errorf("run: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.current
	if v.retired != nil { // the Runner is closed
		r.turns <- struct{}{}
		r.stats.Abandoned++
		return nil, nil, fmt.Errorf("run: %w", xpwc.ErrClosed)
	}
	last := len(v.free) - 1
	i := v.free[last]
	v.free = v.free[:last]
	return v, i, nil
}

// wait waits for the turn of a Run.
func (r *Runner) wait(ctx context.Context) error {
	start := time.Now()
	r.count(func(s *Stats) { s.Waiting++ })
	defer r.count(func(s *Stats) {
		s.Waiting--
		s.Waited += time.Since(start)
	})
	select {
	case <-r.turns:
		return nil
	case <-ctx.Done():
		return r.abandoned(ctx.Err())
	case <-r.ended:
		return r.abandoned(xpwc.ErrClosed)
	}
}

func (r *Runner) abandoned(err error) error {
	r.count(func(s *Stats) { s.Abandoned++ })
	return err
}

// end has the next Run begin.
func (r *Runner) end(v *version, i *instance.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.free = append(v.free, i)
	v.endLocked()
	r.turns <- struct{}{} // has room for each instance
}

func (v *version) compute(i *instance.Instance, dst []Result, inputs []any) ([]Result, error) {
	shapes, err := v.shapes(inputs)
	if err != nil {
		return nil, err
	}
	if err := i.ShapeInputs(shapes); err != nil {
		return nil, err
	}
	for k, input := range inputs {
		value := v.inputs[k]
		if t, ok := input.(Tensor); ok {
			input = t.Data
		}
		kinds[value.Element()].give(i.Inputs[k], input, value.Widened())
	}
	if _, err := i.Infer(); err != nil {
		return nil, err
	}
	results := slices.Grow(dst[:0], len(v.outputs))[:len(v.outputs)]
	for k, value := range v.outputs {
		result, shape := &results[k], i.OutputShape(k)
		result.Name = value.Name
		if !slices.Equal(result.Shape, shape) {
			result.Shape = slices.Clone(shape)
		}
		result.Data = kinds[value.Element()].take(i.Outputs[k], xnnpack.Elements(shape), result.Data)
	}
	return results, nil
}

// Reset makes the states that the model keeps from one Run to the next, such as the keys and values of past tokens,
// what they were before the first. It waits for its turn as a Run does. Errors: that of ctx, and [xpwc.ErrClosed].
func (r *Runner) Reset(ctx context.Context) error {
	v, i, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer r.end(v, i)
	return i.Reset()
}

// Reload puts another version of the model in force. It is loaded while the old one serves, into the same cache and
// with the same options; then all Runs that begin compute with it, including waiting ones. Runs under way end
// with the version that they began with, which is then closed. Reload returns after that. If the new version cannot be
// loaded, the old one goes on as if nothing had been. States begin anew. Inputs and outputs may differ from the old
// ones: Runs are refused inputs that the version in force does not take.
//
// Reload takes the model over, as Load does: it must not be the one in force. It has the same errors, and
// [xpwc.ErrClosed] after Close.
func (r *Runner) Reload(m models.Model) error {
	r.change.Lock()
	defer r.change.Unlock()
	old, err := r.reload(m)
	if err != nil || old == nil {
		return err
	}
	return old.end()
}

// reload returns the version that was in force, if there was one.
func (r *Runner) reload(m models.Model) (old *version, err error) {
	select {
	case <-r.ended:
		return nil, errors.Join(fmt.Errorf("reload: %w", xpwc.ErrClosed), m.Close())
	default:
	}
	failed := true // also after a panic of the model's
	defer func() {
		if failed {
			r.count(func(s *Stats) { s.FailedReloads++ })
		}
	}()
	v, err := r.load(m)
	if err != nil {
		return nil, err
	}
	failed = false
	r.mu.Lock()
	defer r.mu.Unlock()
	old, r.current = r.current, v
	if old != nil {
		r.stats.Reloads++
		old.retireLocked()
	}
	return old, nil
}

// shapes returns the shape of each input in this Run.
func (v *version) shapes(inputs []any) ([][]int, error) {
	if len(inputs) != len(v.inputs) {
		names := make([]string, len(v.inputs))
		for i, value := range v.inputs {
			names[i] = fmt.Sprintf("%q, %s", value.Name, takes(value))
		}
		return nil, fmt.Errorf("%w: %d, not %d: %s", ErrInputCount, len(inputs), len(names), strings.Join(names, "; "))
	}
	shapes := make([][]int, len(inputs))
	for i, input := range inputs {
		value := v.inputs[i]
		t, shaped := input.(Tensor)
		if shaped {
			input = t.Data
		}
		if reflect.TypeOf(input) != kinds[value.Element()].slice {
			return nil, fmt.Errorf("%w %q: %T, not %s", ErrInputType, value.Name, input, takes(value))
		}
		n := reflect.ValueOf(input).Len()
		if shapes[i] = t.Shape; !shaped {
			shapes[i] = v.shapeOf(i, n)
		}
		switch {
		case shapes[i] == nil && !shaped:
			return nil, fmt.Errorf("%w %q: %d elements, not those of %s", ErrInputSize, value.Name, n, takes(value))
		case !value.Dynamic && !slices.Equal(shapes[i], value.Shape):
			return nil, fmt.Errorf("%w: %q: %v, not %s", ErrInputShape, value.Name, shapes[i], takes(value))
		case !fits(n, shapes[i]):
			return nil, fmt.Errorf("%w %q: %d elements of shape %v", ErrInputSize, value.Name, n, shapes[i])
		}
	}
	return shapes, nil
}

// fits reports whether n elements have a shape.
func fits(n int, shape []int) bool {
	for _, d := range shape {
		if d < 1 || n%d != 0 {
			return false
		}
		n /= d
	}
	return n == 1
}

// shapeOf returns the shape of input i with n elements, or nil if it cannot have as many. The number decides the first
// dimension or, if that cannot be smaller, the only one that can.
func (v *version) shapeOf(i, n int) []int {
	value := v.inputs[i]
	if n == xnnpack.Elements(value.Shape) {
		return value.Shape
	}
	m, ok := v.model.(models.Resizable)
	if !ok || n == 0 {
		return nil
	}
	dims := m.DynamicDims()[i]
	if len(dims) == 0 || len(dims) > 1 && dims[0] > 0 {
		return nil
	}
	shape := slices.Clone(value.Shape)
	shape[dims[0]] = 1
	rest := xnnpack.Elements(shape)
	if n%rest != 0 || n/rest > value.Shape[dims[0]] {
		return nil
	}
	shape[dims[0]] = n / rest
	return shape
}

// takes returns the Go type of an input.
func takes(v models.Value) string {
	text := fmt.Sprintf("%s of shape %v", kinds[v.Element()].slice, v.Shape)
	if v.Dynamic {
		text += " or smaller"
	}
	return text
}

// Close waits for Runs that compute, deletes what Load made, and closes the model and the cache that Load opened. Runs
// that wait return [xpwc.ErrClosed]. It waits until what was packed is on the disk, and returns an error if it cannot
// get there. Closing twice is harmless.
func (r *Runner) Close() error {
	r.change.Lock()
	defer r.change.Unlock()
	select {
	case <-r.ended:
		return nil
	default:
		close(r.ended)
	}
	var err error
	if v := r.retire(); v != nil {
		err = v.end()
	}
	if r.options.Cache == nil {
		err = errors.Join(err, r.cache.Close())
	}
	return err
}

// retire has no further Run begin, and returns the version that was in force, if there was one.
func (r *Runner) retire() *version {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.current.retireLocked()
	}
	return r.current
}
