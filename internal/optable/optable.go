// Package optable is a table of small models, one for each weight-bearing operator of XNNPACK in each datatype it
// accepts, with what they must compute. It is how this project's tests run every packing kernel: with and without a
// weights cache, and on lesser CPUs.
//
// A model's weights, inputs and expected outputs are a function of its name alone.
package optable

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/packing"
	"xpwc/xnnpack"
)

// Weight is a static tensor's content on its way to XNNPACK.
type Weight struct {
	Name    string // unique within the case
	Content []byte
	// Eager: XNNPACK reads the content while the runtime is created even if its weights cache has the packed weights.
	Eager bool
	// Retain: XNNPACK reads the content at inference.
	Retain bool
	// Packing says how the weight is packed. It is zero for what is no kernel, and for what nothing packs.
	Packing packing.Identity
}

// A Place gives a weight the memory whose address XNNPACK gets: outside the Go heap, or pinned, as long as the
// content. The content need not be there yet unless the weight is Eager.
type Place func(w Weight) ([]byte, error)

// Case is one operator in one datatype combination.
type Case struct {
	Name string
	// Announced: every weight-bearing node of the case looks its weights up in the cache before it packs them.
	Announced bool
	// Packs is how many entries the case puts into an empty weights cache; Varies if that depends on the CPU or on
	// the version of XNNPACK.
	Packs int
	// Flags are those the runtime must be created with.
	Flags xnnpack.RuntimeFlags

	define func(b *builder) error
}

// Varies stands for a number that depends on the CPU, or on the version of XNNPACK.
const Varies = -1

// Port is an external value of a model.
type Port struct {
	ID   xnnpack.ValueID
	Data []byte // of an input
	// Size is the number of bytes.
	Size int
	want []float64 // of an output
	tol  []float64
	as   tensor
}

// Model is a case that has been built.
type Model struct {
	Subgraph *xnnpack.Subgraph
	Inputs   []Port
	Outputs  []Port
}

// Build defines the case's subgraph. Its static tensors lie where place says. The caller deletes the subgraph.
func (c Case) Build(place Place) (*Model, error) {
	b := &builder{place: place, random: newRandom(c.Name)}
	var err error
	if b.g, err = xnnpack.NewSubgraph(maxPorts); err != nil {
		return nil, err
	}
	if err := c.define(b); err != nil {
		return nil, errors.Join(fmt.Errorf("case %s: %w", c.Name, err), b.g.Delete())
	}
	return &Model{Subgraph: b.g, Inputs: b.inputs, Outputs: b.outputs}, nil
}

// Run builds the case, creates a runtime with the cache (nil for none), calls afterCreate (nil for nothing: where the
// cache is finalized), runs it on the calling thread and returns the outputs' bytes. A nil place is a copy in C
// memory for as long as it runs. Where the hardware cannot run the case the error matches
// xnnpack.UnsupportedHardware.
func (c Case) Run(cache xnnpack.WeightsCache, place Place, afterCreate func() error) (outputs [][]byte, err error) {
	_, outputs, err = c.run(cache, place, afterCreate)
	return outputs, err
}

// RunChecked is Run, and compares the outputs with the expected ones.
func (c Case) RunChecked(cache xnnpack.WeightsCache, place Place, afterCreate func() error) ([][]byte, error) {
	m, outputs, err := c.run(cache, place, afterCreate)
	if err != nil {
		return nil, err
	}
	if err := m.Check(outputs); err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	return outputs, nil
}

func (c Case) run(
	cache xnnpack.WeightsCache, place Place, afterCreate func() error,
) (m *Model, outputs [][]byte, err error) {
	if place == nil {
		var copies Copies
		defer copies.Free()
		place = copies.Place
	}
	if m, err = c.Build(place); err != nil {
		return nil, nil, err
	}
	r, err := xnnpack.NewRuntime(m.Subgraph, &xnnpack.RuntimeOptions{WeightsCache: cache, Flags: c.Flags})
	err = errors.Join(err, m.Subgraph.Delete())
	if err != nil {
		return nil, nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, r.Delete()) }()
	if afterCreate != nil {
		if err := afterCreate(); err != nil {
			return nil, nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
	}
	if err := r.Reshape(); err != nil {
		return nil, nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	values := map[xnnpack.ValueID][]byte{}
	for _, p := range slices.Concat(m.Inputs, m.Outputs) {
		b, err := xnnpack.NewBuffer(p.Size)
		if err != nil {
			return nil, nil, err
		}
		defer b.Free()
		copy(b.Bytes(), p.Data)
		values[p.ID] = b.Bytes()
	}
	if err := errors.Join(r.Setup(values), r.Invoke()); err != nil {
		return nil, nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	for _, p := range m.Outputs {
		outputs = append(outputs, slices.Clone(values[p.ID]))
	}
	return m, outputs, nil
}

// Check compares outputs, in the order of m.Outputs, with what a plain computation in double precision gives. What
// may differ follows from the datatypes: one step of a quantised output, the rounding of dynamically quantised
// inputs, the precision of floats.
func (m *Model) Check(outputs [][]byte) error {
	if len(outputs) != len(m.Outputs) {
		return fmt.Errorf("%d outputs, want %d", len(outputs), len(m.Outputs))
	}
	for i, p := range m.Outputs {
		got := p.as.decode(outputs[i])
		if len(got) != len(p.want) {
			return fmt.Errorf("output %d has %d elements, want %d", i, len(got), len(p.want))
		}
		for j, want := range p.want {
			if diff := got[j] - want; !(diff <= p.tol[j] && -diff <= p.tol[j]) {
				return fmt.Errorf("output %d element %d is %g, want %g ± %.2g", i, j, got[j], want, p.tol[j])
			}
		}
	}
	return nil
}

// Copies are weights in C memory.
type Copies struct {
	buffers []*xnnpack.Buffer
}

// Place copies a weight.
func (c *Copies) Place(w Weight) ([]byte, error) {
	b, err := xnnpack.NewBuffer(len(w.Content))
	if err != nil {
		return nil, err
	}
	c.buffers = append(c.buffers, b)
	copy(b.Bytes(), w.Content)
	return b.Bytes(), nil
}

// Free gives the memory back; no runtime may read it any more.
func (c *Copies) Free() {
	for _, b := range c.buffers {
		b.Free()
	}
	c.buffers = nil
}

// Cases returns the table. Names are unique.
func Cases() []Case {
	return slices.Concat(fullyConnected(), convolutions(), depthwise(), deconvolutions(), matrixMultiplications(),
		prelus(), sparse())
}
