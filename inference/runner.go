package inference

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Errors of [Runner.Run], found with errors.Is before anything is computed. Their messages name the input and say what
// it takes.
var (
	// ErrInputCount: the model takes another number of inputs.
	ErrInputCount = errors.New("wrong number of inputs")
	// ErrInputType: an input is no slice, or one of another type.
	ErrInputType = errors.New("wrong type of input")
	// ErrInputSize: an input has another number of elements than its shape.
	ErrInputSize = errors.New("wrong size of input")
)

// ErrOutputShape is an error of [Runner.Run]: an input has fewer rows than its value, and an output would have fewer
// elements, though its value is not [models.Value.Dynamic].
var ErrOutputShape = instance.ErrOutputShape

// A Runner is a model that is ready to run. Its methods may be called from many goroutines; calls of Run wait for each
// other. It must be closed.
type Runner struct {
	inputs, outputs []models.Value
	model           models.Model
	cache           *xpwc.Cache

	mu       sync.Mutex
	instance *instance.Instance // nil when closed
}

// An Output is what a Run computed. It is the caller's own: no other Run and no Close changes it.
type Output struct {
	Name string
	// Shape gives the dimensions, outermost first. It is the model's, but for values that are [models.Value.Dynamic].
	Shape []int
	// Data are the elements row by row, []float32 for instance, as the package's documentation has it.
	Data any
}

// Inputs returns what Run takes, in this order.
func (r *Runner) Inputs() []models.Value { return r.model.Inputs() }

// Outputs returns what Run returns, in this order.
func (r *Runner) Outputs() []models.Value { return r.model.Outputs() }

// Cache returns the Runner's handle of the cache, for its Stats and Save, and for package metrics. It is closed with
// the Runner, and Stats can be asked for afterwards.
func (r *Runner) Cache() *xpwc.Cache { return r.cache }

// Run computes the outputs. Each input is a slice of its value's type; its elements are copied, row by row. It has as
// many as the value's shape, or fewer rows if the value is [models.Value.Dynamic]: then the first dimension is what the
// length makes it, at least 1. A Run with other lengths than the one before takes the time to plan the memory anew.
//
// Errors: ErrInputCount, ErrInputType, ErrInputSize, ErrOutputShape; [xpwc.ErrClosed] after Close; [xpwc.ErrLost] if
// packed weights may be lost, as [xpwc.Session.Err] has it: close the Runner and load the model again; and those of
// XNNPACK, if inputs do not fit together. What must not be wrong on a failing disk of another system than Linux, or
// under overlayfs, is computed after [xpwc.Cache.Save].
func (r *Runner) Run(inputs ...any) ([]Output, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instance == nil {
		return nil, fmt.Errorf("run: %w", xpwc.ErrClosed)
	}
	shapes, err := r.shapes(inputs)
	if err != nil {
		return nil, err
	}
	for i, input := range inputs {
		if err := r.instance.ShapeInput(i, shapes[i]); err != nil {
			return nil, err
		}
		v := r.inputs[i]
		kinds[v.Element()].give(r.instance.Inputs[i], input, v.Widened())
	}
	if _, err := r.instance.Infer(); err != nil {
		return nil, err
	}
	outputs := make([]Output, len(r.outputs))
	for i, v := range r.outputs {
		shape := r.instance.OutputShape(i)
		data := kinds[v.Element()].take(r.instance.Outputs[i], xnnpack.Elements(shape))
		outputs[i] = Output{v.Name, slices.Clone(shape), data}
	}
	return outputs, nil
}

// Reset makes the states that the model keeps from one Run to the next, such as the keys and values of past tokens,
// what they were before the first. The error matches [xpwc.ErrClosed] after Close.
func (r *Runner) Reset() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instance == nil {
		return fmt.Errorf("reset: %w", xpwc.ErrClosed)
	}
	return r.instance.Reset()
}

// shapes returns the shape of each input in this Run.
func (r *Runner) shapes(inputs []any) ([][]int, error) {
	if len(inputs) != len(r.inputs) {
		all := make([]string, len(r.inputs))
		for i, v := range r.inputs {
			all[i] = fmt.Sprintf("%q, %s", v.Name, takes(v))
		}
		return nil, fmt.Errorf("%w: %d, not %d: %s", ErrInputCount, len(inputs), len(all), strings.Join(all, "; "))
	}
	shapes := make([][]int, len(inputs))
	for i, input := range inputs {
		v := r.inputs[i]
		n, ok := kinds[v.Element()].length(input)
		if !ok {
			return nil, fmt.Errorf("%w %q: %T, not %s", ErrInputType, v.Name, input, takes(v))
		}
		if shapes[i] = shapeOf(v, n); shapes[i] == nil {
			return nil, fmt.Errorf("%w %q: %d elements, not those of %s", ErrInputSize, v.Name, n, takes(v))
		}
	}
	return shapes, nil
}

// shapeOf returns the shape of a value with n elements, and nil if it cannot have as many.
func shapeOf(v models.Value, n int) []int {
	if n == xnnpack.Elements(v.Shape) {
		return v.Shape
	}
	if !v.Dynamic || len(v.Shape) == 0 {
		return nil
	}
	row := xnnpack.Elements(v.Shape[1:])
	if row == 0 || n == 0 || n%row != 0 || n/row > v.Shape[0] {
		return nil
	}
	return append([]int{n / row}, v.Shape[1:]...)
}

// takes says what an input is given as.
func takes(v models.Value) string {
	text := fmt.Sprintf("%s of shape %v", kinds[v.Element()].slice, v.Shape)
	if v.Dynamic {
		text += " or fewer rows"
	}
	return text
}

// Close waits for a Run that computes, deletes what Load made, and closes the model and the cache. It waits until what
// was packed is on the disk, and returns an error if it cannot get there. Closing twice is harmless.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instance == nil {
		return nil
	}
	err := errors.Join(r.instance.Close(), r.model.Close())
	r.instance = nil
	return err
}
