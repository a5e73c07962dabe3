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

// A plan is how an instance computes with inputs of certain shapes.
type plan struct {
	inputShapes  [][]int
	outputShapes [][]int
	stages       []stage
}

// A stage is one of the model's, with its runtime if it is a subgraph.
type stage struct {
	models.Stage
	runtime         *runtime
	inputs, outputs [][]byte // the memory of the buffers, once the plan is prepared
}

// A runtime is one of XNNPACK's, which may compute stages of several plans.
type runtime struct {
	*xnnpack.Runtime
	place     *place
	structure string  // of the stages; "" if it computes only one
	shapes    [][]int // of the inputs and outputs, as of the last reshape
	planned   bool    // its memory is planned for these shapes
}

// A place is where the packed weights of one runtime are.
type place struct {
	loader   models.Loader
	provider xnnpack.WeightsCache
	session  *xpwc.Session // the loader and provider, or nil
}

func (p *place) finalize() error {
	if p.session == nil {
		return nil
	}
	return p.session.Finalize()
}

func (p *place) close() error {
	if p.session == nil {
		return nil
	}
	return p.session.Close()
}

// maxPlans bounds how many plans an instance keeps: a language model alternates between a prompt and one token.
const maxPlans = 4

// Dynamic reports whether the instance computes with inputs of several shapes.
func (e *Instance) Dynamic() bool {
	_, ok := e.Model.(models.Resizable)
	return ok && slices.ContainsFunc(e.Model.Inputs(), func(v models.Value) bool { return v.Dynamic })
}

// InputShape returns the present shape of an input.
func (e *Instance) InputShape(i int) []int { return e.inputShapes[i] }

// ShapeInputs gives the inputs shapes, for the next inference and all after it. The content of each is then at the
// beginning of its buffer. The error matches ErrInputShape if the model does not compute with these shapes; the
// instance keeps its shapes.
func (e *Instance) ShapeInputs(shapes [][]int) error {
	same := func(p *plan) bool { return slices.EqualFunc(shapes, p.inputShapes, slices.Equal[[]int]) }
	if same(e.plan) {
		return nil
	}
	if i := slices.IndexFunc(e.plans, same); i >= 0 {
		e.use(e.plans[i])
		return nil
	}
	resized, err := e.resized(shapes)
	if err != nil {
		return err
	}
	stages, between := models.StagesOf(resized)
	if err := e.growBetween(between); err != nil {
		return err
	}
	p, err := e.planOf(resized, stages, &smallModel{})
	if err != nil {
		return errors.Join(err, e.closeUnused())
	}
	e.use(p)
	return e.closeUnused()
}

// resized returns the model for inputs of these shapes.
func (e *Instance) resized(shapes [][]int) (models.Model, error) {
	m, ok := e.Model.(models.Resizable)
	if !ok {
		return nil, fmt.Errorf("%w: %v", ErrInputShape, shapes)
	}
	resized, err := m.Resized(shapes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInputShape, err)
	}
	return resized, nil
}

// use makes a plan the present one.
func (e *Instance) use(p *plan) {
	e.plans = append(slices.DeleteFunc(e.plans, func(q *plan) bool { return q == p }), p)
	e.plan, e.ready = p, false
}

// planOf returns the plan of a model, with runtimes of the other plans where they compute its stages.
func (e *Instance) planOf(m models.Model, stages []models.Stage, small *smallModel) (*plan, error) {
	p := &plan{}
	for _, v := range m.Inputs() {
		p.inputShapes = append(p.inputShapes, v.Shape)
	}
	for _, v := range m.Outputs() {
		p.outputShapes = append(p.outputShapes, v.Shape)
	}
	spare, dynamic := slices.Clone(e.runtimes), e.Dynamic()
	for _, s := range stages {
		var r *runtime
		if s.Subgraph != nil {
			structure := ""
			if dynamic {
				structure = structureOf(s)
			}
			i := slices.IndexFunc(spare, func(r *runtime) bool { return structure != "" && r.structure == structure })
			if i >= 0 {
				r = spare[i]
				spare = slices.Delete(spare, i, i+1)
			} else {
				var err error
				owner, stage := small.take(structure, m, s)
				if r, err = e.newRuntime(owner, stage, structure); err != nil {
					return nil, err
				}
			}
		}
		p.stages = append(p.stages, stage{Stage: s, runtime: r})
	}
	return p, nil
}

// sessions returns the sessions of all runtimes.
func (e *Instance) sessions() (sessions []*xpwc.Session) {
	for _, r := range e.runtimes {
		if r.place.session != nil {
			sessions = append(sessions, r.place.session)
		}
	}
	return sessions
}

// closeUnused forgets the oldest plans, and closes the runtimes that no other plan has.
func (e *Instance) closeUnused() error {
	e.plans = slices.Delete(e.plans, 0, max(0, len(e.plans)-maxPlans))
	var errs []error
	e.runtimes = slices.DeleteFunc(e.runtimes, func(r *runtime) bool {
		uses := func(s stage) bool { return s.runtime == r }
		used := slices.ContainsFunc(e.plans, func(p *plan) bool { return slices.ContainsFunc(p.stages, uses) })
		if !used {
			errs = append(errs, r.close())
		}
		return !used
	})
	return errors.Join(errs...)
}

// growBetween makes the buffers between stages large enough.
func (e *Instance) growBetween(buffers []models.Buffer) error {
	for i, buf := range buffers {
		if i < len(e.between) && len(e.between[i].Bytes()) >= buf.Size {
			continue
		}
		b, err := xnnpack.NewBuffer(buf.Size)
		if err != nil {
			return err
		}
		if i < len(e.between) {
			e.between[i].Free()
			e.between[i], e.ready = b, false // also if the plan that needs it comes to nothing
		} else {
			e.between = append(e.between, b)
		}
	}
	return nil
}

// newRuntime makes a subgraph and of it a runtime.
func (e *Instance) newRuntime(m models.Model, s models.Stage, structure string) (*runtime, error) {
	start := time.Now()
	p, err := e.place(m)
	if err != nil {
		return nil, err
	}
	r := &runtime{place: p, structure: structure, shapes: s.Shapes}
	e.runtimes = append(e.runtimes, r)
	finalize := func() error {
		start := time.Now()
		err := p.finalize()
		e.Times.Finalize += time.Since(start)
		return err
	}
	subgraph, err := s.Subgraph(p.loader)
	if err != nil {
		return nil, err
	}
	e.Times.Load += time.Since(start)
	start = time.Now()
	r.Runtime, err = xnnpack.NewRuntime(subgraph,
		&xnnpack.RuntimeOptions{WeightsCache: p.provider, Threadpool: e.Pool, Workspace: e.shared})
	e.Times.Create += time.Since(start)
	// The session may know why XNNPACK failed.
	return r, errors.Join(err, subgraph.Delete(), finalize())
}

func (r *runtime) close() (err error) {
	if r.Runtime != nil {
		err = r.Delete()
	}
	return errors.Join(err, r.place.close())
}

// reshape gives a runtime the shapes of a stage's inputs, and checks the sizes of the outputs.
func (r *runtime) reshape(s models.Stage) error {
	if r.planned && slices.EqualFunc(r.shapes, s.Shapes, slices.Equal[[]int]) {
		return nil
	}
	r.planned = false
	for i, shape := range s.Shapes[:min(len(s.Inputs), len(s.Shapes))] {
		if slices.Equal(shape, r.shapes[i]) {
			continue
		}
		if err := r.ReshapeExternal(xnnpack.ValueID(i), shape); err != nil {
			return err
		}
	}
	r.shapes = s.Shapes
	if err := r.Reshape(); err != nil {
		return err
	}
	for i := len(s.Inputs); i < len(s.Shapes); i++ {
		shape, err := r.ExternalShape(xnnpack.ValueID(i))
		if err != nil {
			return err
		}
		if xnnpack.Elements(shape) != xnnpack.Elements(s.Shapes[i]) { // the rest would be that of an earlier inference
			return fmt.Errorf("%w: output %d of a subgraph has the shape %v, not %v", ErrInputShape, i-len(s.Inputs),
				shape, s.Shapes[i])
		}
	}
	r.planned = true
	return nil
}
