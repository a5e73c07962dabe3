// Package optable is a table of small models, one for each weight-bearing operator of XNNPACK in each datatype it
// accepts. It is how this project's tests run every packing kernel: with and without a
// weights cache, and on lesser CPUs.
//
// A model's weights and input are a function of its name alone.
package optable

import (
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// Weight is a static tensor's content on its way to XNNPACK.
type Weight struct {
	Name    string // unique within the case
	Content []byte
	// Eager: XNNPACK reads the content while the runtime is created even on a cache hit.
	Eager bool
	// Retain: XNNPACK reads the content at inference.
	Retain bool
	// Packing describes how the weight is packed. It is zero for a weight that is no kernel, or is not packed.
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

	define func(b *builder)
}

// Varies stands for a number that depends on the CPU, or on the version of XNNPACK.
const Varies = -1

// Run builds the case with its static tensors in the memory that place returns, creates a runtime with the cache (nil
// for none), calls afterCreate (nil for nothing: where the cache is finalized), runs it on the calling thread and
// returns the output's bytes. A nil place is a copy in C memory for as long as it runs. Where the hardware cannot run
// the case the error matches xnnpack.UnsupportedHardware.
func (c Case) Run(cache xnnpack.WeightsCache, place Place, afterCreate func() error) (output []byte, err error) {
	b, err := c.run(cache, place, afterCreate)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", c.Name, err)
	}
	return b.output.content, nil
}

// run returns all that the case is made of.
func (c Case) run(cache xnnpack.WeightsCache, place Place, afterCreate func() error) (b *builder, err error) {
	if place == nil {
		var copies Copies
		defer copies.Free()
		place = copies.Place
	}
	b = &builder{place: place, random: newRandom(c.Name)}
	if b.g, err = xnnpack.NewSubgraph(int(externals)); err != nil {
		return nil, err
	}
	if err := fault.Try(func() { c.define(b) }); err != nil {
		return nil, errors.Join(err, b.g.Delete())
	}
	r, err := xnnpack.NewRuntime(b.g, &xnnpack.RuntimeOptions{WeightsCache: cache, Flags: c.Flags})
	err = errors.Join(err, b.g.Delete())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Delete()) }()
	if afterCreate != nil {
		if err := afterCreate(); err != nil {
			return nil, err
		}
	}
	if err := r.Reshape(); err != nil {
		return nil, err
	}
	values := map[xnnpack.ValueID][]byte{}
	for id, t := range map[xnnpack.ValueID]tensor{inputID: b.input, outputID: b.output} {
		buffer, err := xnnpack.NewBuffer(len(t.content))
		if err != nil {
			return nil, err
		}
		defer buffer.Free()
		copy(buffer.Bytes(), t.content)
		values[id] = buffer.Bytes()
	}
	if err := errors.Join(r.Setup(values), r.Invoke()); err != nil {
		return nil, err
	}
	copy(b.output.content, values[outputID])
	return b, nil
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
