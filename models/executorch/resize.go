package executorch

import (
	"fmt"
	"slices"
	"sync"

	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/models"
)

var _ models.Resizable = (*Method)(nil)

// A source is what methods are planned from, in one shape or another.
type source struct {
	files  *files
	method *method

	once        sync.Once // of what follows
	dynamicDims [][]int

	mu      sync.Mutex
	varying map[int][]bool // the dimensions of values, in the order of memory, that differed between shapes
}

// Resized returns the method for inputs of these shapes, which have the order of memory, as those of Inputs do. What
// the program computes of sizes is computed from them. The method that is returned need not be closed. The error
// matches [ErrShape] if the program has no memory for an input of the shape, or is that of Runnable: shapes of operands
// do not fit together.
func (m *Method) Resized(shapes [][]int) (models.Model, error) {
	if m.fault != nil {
		return nil, m.Runnable()
	}
	resized, err := m.resized(shapes)
	if err != nil {
		return nil, fmt.Errorf("%s: method %q: %w", m.program.Path(), m.name, err)
	}
	return resized, nil
}

func (m *Method) resized(shapes [][]int) (resized *Method, err error) {
	err = fault.Try(func() {
		for range maxVarying {
			var varied bool
			resized, varied = planned(m.source, m.program, &plan{files: m.source.files}, shapes)
			if fault.Check(resized.fault); !varied {
				break
			}
		}
		resized.data = &dataMap{files: m.source.files, constants: map[string]*constant{}}
		resized.data.add(resized.plan)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.describeInputs(shapes), err)
	}
	return resized, nil
}

// maxVarying bounds how often a method is planned again since other dimensions were found to vary.
const maxVarying = 4

// describeInputs tells shapes of inputs, and the largest ones.
func (m *Method) describeInputs(shapes [][]int) string {
	text := "inputs of shapes"
	for _, s := range shapes {
		text += fmt.Sprint(" ", s)
	}
	text += ", at most"
	for _, i := range m.source.method.inputs {
		if t := m.source.method.values[i].tensor; t != nil {
			text += fmt.Sprint(" ", t.shape)
		}
	}
	return text
}

// DynamicDims implements [models.Resizable]. A program does not tell: a dimension is dynamic if the method can be
// planned with less than its largest size.
func (m *Method) DynamicDims() [][]int {
	m.source.once.Do(func() { m.source.dynamicDims = m.findDynamicDims() })
	return m.source.dynamicDims
}

// A dim is a dimension of an input.
type dim struct{ input, index int }

func (m *Method) findDynamicDims() [][]int {
	inputs := m.Inputs()
	dims := make([][]int, len(inputs))
	dynamic := map[dim]bool{}
	add := func(group []dim) bool {
		shapes := make([][]int, len(inputs))
		for _, smaller := range []func(n int) int{
			func(n int) int { return n - 1 }, func(n int) int { return (n + 1) / 2 }} {
			for i, v := range inputs {
				shapes[i] = slices.Clone(v.Shape)
			}
			for _, d := range group {
				shapes[d.input][d.index] = smaller(shapes[d.input][d.index])
			}
			if _, err := m.resized(shapes); err == nil {
				for _, d := range group {
					dynamic[d] = true
				}
				return true
			}
		}
		return false
	}
	bySize := map[int][]dim{}
	var sizes []int
	for i, v := range inputs {
		for k, n := range v.Shape {
			if !v.Dynamic || n < 2 {
				continue
			}
			if bySize[n] == nil {
				sizes = append(sizes, n)
			}
			bySize[n] = append(bySize[n], dim{i, k})
		}
	}
	for _, n := range sizes {
		var tied []dim // with others of the size
		for _, d := range bySize[n] {
			if !add([]dim{d}) {
				tied = append(tied, d)
			}
		}
		if len(tied) > 0 && !add(tied) {
			add(bySize[n])
		}
	}
	for d := range dynamic {
		dims[d.input] = append(dims[d.input], d.index)
	}
	for i := range dims {
		slices.Sort(dims[i])
	}
	return dims
}

// clone returns the method with copies of what planning with other shapes changes.
func (m *method) clone() *method {
	c := *m
	c.values = slices.Clone(m.values)
	for i, v := range c.values {
		if v.tensor != nil && v.tensor.dynamic {
			t := *v.tensor
			c.values[i].tensor = &t
		}
	}
	return &c
}

// shapeInputs gives the dynamic inputs their shapes.
func (p *planner) shapeInputs(shapes [][]int) {
	if len(shapes) != len(p.method.inputs) {
		fault.Because(ErrShape, "%d shapes for %d inputs", len(shapes), len(p.method.inputs))
	}
	for i, shape := range shapes {
		value := p.method.inputs[i]
		t := p.method.values[value].tensor
		if t == nil || t.bare && len(shape) == 0 {
			continue
		}
		fits := len(shape) == len(t.shape) && (t.dynamic || slices.Equal(shape, t.shape))
		for d := 0; fits && d < len(shape); d++ {
			fits = shape[d] > 0 && shape[d] <= t.shape[d]
		}
		if !fits {
			fault.Because(ErrShape, "input %d takes %s, not %v", i, t.limits(), shape)
		}
		if t.dynamic {
			p.reshapeTensor(value, shape)
		}
	}
}

// limits describes the shapes that a tensor can have.
func (t *tensor) limits() string {
	if t.dynamic {
		return fmt.Sprintf("shapes up to %v", t.shape)
	}
	return fmt.Sprintf("the shape %v", t.shape)
}

// reshapeTensor gives a dynamic tensor of the method its shape, in the order of memory. The program has memory for the
// largest one.
func (p *planner) reshapeTensor(value int, shape []int) {
	t, largest := p.method.values[value].tensor, p.source.method.values[value].tensor.shape
	if !t.dynamic || len(shape) != len(largest) {
		malformed("value %d has the shape %v, not %v", value, largest, shape)
	}
	if elements(shape...); product(shape) > product(largest) {
		fault.Because(ErrShape, "value %d would have the shape %v, and the program has memory for %v", value, shape,
			largest)
	}
	t.shape = slices.Clone(shape)
	p.plan.values[p.base+value].tensor.Shape = t.shape
}

// vary notes in the source which dimensions of the method's values differ from the largest ones. It reports whether
// this planning did not know some of them.
func (p *planner) vary() (varied bool) {
	p.source.mu.Lock()
	defer p.source.mu.Unlock()
	for i, v := range p.method.values {
		if v.tensor == nil || !v.tensor.dynamic {
			continue
		}
		for d, n := range p.source.method.values[i].tensor.shape {
			if v.tensor.shape[d] == n || p.varying[i] != nil && p.varying[i][d] {
				continue
			}
			varied = true
			list := p.source.varying[i]
			if list == nil {
				list = make([]bool, len(v.tensor.shape))
			} else {
				list = slices.Clone(list) // other plannings read it
			}
			list[d] = true
			p.source.varying[i] = list
		}
	}
	return varied
}

// freed returns a shape as XNNPACK's reshape takes it: 0 in the only dimension that differs between shapes of the
// value.
func (p *planner) freed(id flow.ID, shape []int) []int {
	if p.varyingDims(id) != 1 {
		return shape
	}
	freed := slices.Clone(shape)
	freed[slices.Index(p.varying[int(id)-p.base], true)] = 0
	return freed
}

// varyingDims returns how many dimensions of a value differ between shapes.
func (p *planner) varyingDims(id flow.ID) (n int) {
	for _, varies := range p.varying[int(id)-p.base] {
		if varies {
			n++
		}
	}
	return n
}

// resizeOutputs gives the dynamic tensors that a call computes their shapes, where it is not the computation itself
// that has them.
func (p *planner) resizeOutputs(name string, args []int) {
	if !slices.ContainsFunc(args, p.dynamicIn) {
		return
	}
	rule := shapeRules[name]
	if rule == nil {
		rule = (*invocation).broadcastSizes
	}
	rule(&invocation{planner: p, name: name, args: args})
}

// dynamicIn reports whether a value is a dynamic tensor, or a list of some.
func (p *planner) dynamicIn(value int) bool {
	dynamic := func(i int) bool {
		return i >= 0 && p.method.values[i].tensor != nil && p.method.values[i].tensor.dynamic
	}
	v := &p.method.values[value]
	return dynamic(value) || (v.kind == evalueTensorList || v.kind == evalueOptionalTensorList) &&
		slices.ContainsFunc(v.list, dynamic)
}

// sizes returns the dimensions in the method's order.
func (t *tensor) sizes() []int {
	if t.bare {
		return []int{}
	}
	sizes := make([]int, len(t.order))
	for i, d := range t.order {
		sizes[d] = t.shape[i]
	}
	return sizes
}

// setSizes gives a tensor its dimensions, in the method's order, if it is dynamic.
func (c *invocation) setSizes(value int, sizes []int) {
	t := c.tensorAt(value)
	if !t.dynamic {
		return
	}
	if len(sizes) == 0 {
		sizes = scalar()
	}
	if len(sizes) != len(t.order) {
		malformed("it computes %v for %d dimensions", sizes, len(t.order))
	}
	shape := make([]int, len(sizes))
	for i, d := range t.order {
		shape[i] = sizes[d]
	}
	c.reshapeTensor(value, shape)
}

// setArgument gives argument i its dimensions, as setSizes does.
func (c *invocation) setArgument(i int, sizes []int) {
	c.arg(i)
	c.setSizes(c.args[i], sizes)
}

// setResult gives the last argument its dimensions.
func (c *invocation) setResult(sizes []int) { c.setSizes(c.args[c.lastArg()], sizes) }

func (c *invocation) sizes(i int) []int { return c.tensor(i).sizes() }

// adopt gives a value of the plan the shape that a step computes, if it is a dynamic tensor of the method.
func (p *planner) adopt(id flow.ID, shape []int) {
	if v := &p.plan.values[id]; v.dynamic && !v.internal && v.constant == nil && len(v.tensor.Shape) == len(shape) &&
		!slices.Equal(v.tensor.Shape, shape) {
		p.reshapeTensor(int(id)-p.base, shape)
	}
}
