package executorch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/internal/output"
	"xpwc/xnnpack"
)

// ErrSkeleton is matched by the error of opening what [Skeleton.Write] wrote: only the stock runtime loads that, with
// its file of packed weights. Open the program that it was made of.
var ErrSkeleton = errors.New("a skeleton, without weights: only ExecuTorch loads it, with its file of packed " +
	"weights; use the program that it was made of")

// ErrNoSkeleton is matched by the error of [Program.Skeleton] if there is none.
var ErrNoSkeleton = errors.New("no skeleton can be made of it")

// A Skeleton is a program without the weights that its stock runtime finds in a file of packed weights.
//
// Without that file the runtime packs what the skeleton has: kernels of zeros, and biases that are no numbers. No
// output is one that might be believed then: all its elements are NaN or infinite. XNNPACK adds the bias to all that a
// kernel computes. What limits a result may make of a NaN one of the limits, and these are infinite at the nodes that
// the outputs are from.
//
// With another program's file the runtime finds a kernel if that program has one of the same name, bias and seed. So
// only kernels of floats are left out whose names, and whose biases' names, are hashes of their content: another
// program has others, unless it gives the very same content another shape or other groups. Kernels that are packed with
// scales, or with a bias that the runtime does not look for, stay. They are renamed, because another program may have
// packed weights under their names. So the runtime packs them at each load.
type Skeleton struct {
	Kernels   int         // that are not in it
	HoleBytes int64       // theirs, which take no space on the disk
	FileBytes int64       // of the file, with the holes
	Remaining []Remaining // kernels that are in it, the most bytes first
	Renamed   int         // constants with new names: the runtime packs their kernels at each load

	program *Program
	zeroed  []*weighedNode // out of it
	names   []newName
}

// Remaining is why kernels are in a skeleton.
type Remaining struct {
	Reason  string
	Kernels int
	Bytes   int64
}

// Skeleton returns the skeleton of a .pte for a file of packed weights, of which packed reports whether it has an entry
// that the stock runtime finds by a name. External data stays as it is. The error matches [ErrNoSkeleton], or is that
// of reading the program.
func (p *Program) Skeleton(packed func(name string) bool) (s *Skeleton, err error) {
	err = fault.Try(func() { s = p.skeleton(packed) })
	return s, err
}

func (p *Program) skeleton(packed func(name string) bool) *Skeleton {
	for _, m := range p.methods {
		if err := m.Runnable(); err != nil { // what reads its constants is not known
			fault.Check(fmt.Errorf("%w: %w", ErrNoSkeleton, err))
		}
	}
	if freed := p.FreedConstants(); len(freed) > 0 {
		fault.Check(fmt.Errorf("%s: %w: with any file of packed weights its runtime frees %q, "+
			"and reads it at inference", p.Path(), ErrNoSkeleton, freed[0]))
	}
	nodes := p.weighedNodes(packed)
	p.keepShared(nodes)
	for _, m := range p.methods {
		never := p.plan.neverFinite(m.whole, nodes)
		for i, out := range m.whole.Outputs {
			if !never[out] {
				fault.Check(fmt.Errorf("%s: method %q: %w: without its packed weights, output %d could be numbers "+
					"that one might believe; it must be from a node that adds a bias of floats and limits nothing, "+
					"and whose weights are in the .pte, and packed", p.Path(), m.name, ErrNoSkeleton, i))
			}
		}
	}
	s := &Skeleton{program: p}
	s.rename(nodes)
	fault.Check(p.files.program().read(func(file []byte) { s.FileBytes = int64(len(file) + len(output.SkeletonMark)) }))
	seen, reasons := map[string]bool{}, map[string]*Remaining{}
	for _, step := range p.plan.steps {
		n := nodes[step]
		if n == nil || seen[n.kernel.name] {
			continue
		}
		seen[n.kernel.name] = true
		if n.reason == "" {
			s.Kernels, s.HoleBytes = s.Kernels+1, s.HoleBytes+n.kernel.at.Size
			s.zeroed = append(s.zeroed, n)
			continue
		}
		if reasons[n.reason] == nil {
			reasons[n.reason] = &Remaining{Reason: n.reason}
		}
		reasons[n.reason].Kernels++
		reasons[n.reason].Bytes += n.kernel.at.Size
	}
	for _, k := range reasons {
		s.Remaining = append(s.Remaining, *k)
	}
	slices.SortFunc(s.Remaining, func(a, b Remaining) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Reason, b.Reason))
	})
	return s
}

// Write writes the skeleton into an empty file, which gets holes where the file system has them.
func (s *Skeleton) Write(w *os.File) error {
	var holes []output.Hole
	for _, n := range s.zeroed {
		holes = append(holes, output.Hole(n.kernel.at))
	}
	var wrong error
	err := s.program.files.program().read(func(file []byte) { wrong = output.WriteWithHoles(w, 0, file, holes) })
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	for _, n := range s.zeroed {
		nan := []byte{0, 0, 0xc0, 0x7f}
		if n.half {
			nan = []byte{0, 0x7e}
		}
		span := n.bias.at
		if _, err := w.WriteAt(bytes.Repeat(nan, int(span.Size)/len(nan)), span.Offset); err != nil {
			return err
		}
	}
	for _, n := range s.names {
		if _, err := w.WriteAt([]byte(n.name), n.span.Offset); err != nil {
			return err
		}
	}
	return output.MarkSkeleton(w)
}

// A weighedNode is a node that packs a kernel.
type weighedNode struct {
	kernel, bias *constant // bias is nil if there is none
	half         bool      // the bias is in half precision
	biasInKey    bool      // the runtime adds the bias's name to the kernel's
	identified   bool      // the names that the runtime looks for show all that is packed, except shape and groups
	reason       string    // why the kernel stays in the file; "" if it need not
}

// weighedNodes returns the nodes that pack a kernel, by their steps, with each node's own reason against leaving it
// out.
func (p *Program) weighedNodes(packed func(name string) bool) map[*flow.Step]*weighedNode {
	methods := readMethods(p.files.program().contents)
	nodes, ways := map[*flow.Step]*weighedNode{}, map[string]map[string]bool{} // by the kernel's name
	steps := packingSteps(p.plan.part())
	for _, s := range steps {
		w := s.Operation.(flow.Node)
		kernel, bias := w.Weights()
		n := &weighedNode{kernel: p.plan.values[kernel].constant}
		if bias != xnnpack.InvalidValue {
			n.bias = p.plan.values[bias].constant
			n.half = p.plan.values[bias].tensor.Type == xnnpack.Float16
		}
		nodes[s] = n
		if ways[n.kernel.name] == nil {
			ways[n.kernel.name] = map[string]bool{}
		}
		ways[n.kernel.name][p.plan.signature(w)] = true
	}
	for _, s := range steps {
		n, w, name := nodes[s], s.Operation.(flow.Node), nodes[s].kernel.name
		inputs, _ := w.Operands()
		dynamic := p.plan.values[inputs[0]].tensor.Type == xnnpack.DynamicQInt8
		if n.biasInKey = n.bias != nil && !dynamic; n.biasInKey {
			name += n.bias.name // else the runtime finds it by the kernel alone
		}
		n.identified = n.biasInKey && !p.scaled(w) && p.namedByContent(n.kernel) && p.namedByContent(n.bias)
		_, deconvolves := w.N.(xnnpack.Deconvolution2D)
		_, bias := w.Weights()
		switch {
		case n.bias == nil || !n.half && p.plan.values[bias].tensor.Type != xnnpack.Float32:
			n.reason = "without a bias of floats, which can be NaN"
		case !Named(n.kernel.name) || !Named(n.bias.name) || deconvolves || !packed(name):
			n.reason = "not in the file of packed weights"
		case n.kernel.file != 0 || n.bias.file != 0:
			n.reason = "in another file than the .pte"
		case dynamic || p.scaled(w):
			n.reason = "packed with scales, or a bias, that the runtime does not look for"
		case !n.identified:
			n.reason = "under a name that is not the hash of its content"
		case len(ways[n.kernel.name]) > 1:
			n.reason = "packed in several ways"
		case p.overlaps(n.kernel, methods) || p.overlaps(n.bias, methods):
			n.reason = "where the program has other data too"
		}
	}
	return nodes
}

// scaled reports whether scales are packed with a kernel.
func (p *Program) scaled(w flow.Node) bool {
	kernel, _ := w.Weights()
	t := p.plan.values[kernel].tensor.Type
	return t != xnnpack.Float32 && t != xnnpack.Float16 && t != xnnpack.BFloat16
}

// namedByContent reports whether a constant is called by the SHA-256 of its content, as ExecuTorch's export calls it:
// then no other content has its name.
func (p *Program) namedByContent(c *constant) (ok bool) {
	fault.Check(p.files.files[c.file].read(func(file []byte) {
		ok = c.name == fmt.Sprintf("%x", sha256.Sum256(c.at.In(file)))
	}))
	return ok
}

// A newName replaces the name of a constant at a place in the program's file.
type newName struct {
	span flatbuf.Span
	name string
}

// minNameBytes is the length of the shortest name that is replaced: the new one has four bits a byte of a hash.
const minNameBytes = 16

// rename renames the constants that the runtime could find in another program's file with other packed bytes.
func (s *Skeleton) rename(nodes map[*flow.Step]*weighedNode) {
	p := s.program
	places := p.namePlaces()
	renamed := map[string]bool{}
	for _, step := range p.plan.steps {
		n := nodes[step]
		if n == nil || n.identified {
			continue
		}
		if _, named := p.files.named[n.kernel.name]; !named {
			continue // the runtime looks for no packed weights
		}
		c := n.kernel
		if len(places[c.name]) == 0 && n.biasInKey {
			c = n.bias
		}
		if len(places[c.name]) == 0 {
			fault.Check(fmt.Errorf("%s: %w: the runtime could take another program's packed weights for those of %q, "+
				"which cannot be renamed: its name is short, or is in a .ptd or of a method's tensor", p.Path(),
				ErrNoSkeleton, n.kernel.name))
		}
		renamed[c.name] = true
	}
	var program [sha256.Size]byte
	fault.Check(p.files.program().read(func(file []byte) {
		if len(renamed) > 0 {
			program = sha256.Sum256(file)
		}
	}))
	s.Renamed = len(renamed)
	for name := range renamed {
		hidden := hiddenName(program, name)
		for _, span := range places[name] {
			s.names = append(s.names, newName{span, hidden})
		}
	}
}

// hiddenName returns a name as long as the given one, which only this program has.
func hiddenName(program [sha256.Size]byte, name string) string {
	var digits []byte
	for i := 0; len(digits) < len(name); i++ {
		digits = fmt.Appendf(digits, "%x", sha256.Sum256(fmt.Appendf(nil, "%x %d %s", program, i, name)))
	}
	return string(digits[:len(name)])
}

// namePlaces returns where the program's file has the names of constants that can be renamed.
func (p *Program) namePlaces() map[string][]flatbuf.Span {
	places := map[string][]flatbuf.Span{}
	c := p.files.program().contents
	for _, n := range c.table.Tables(c.kind.namedData).All() {
		if name := n.String(namedKey); len(name) >= minNameBytes {
			places[name] = append(places[name], n.Span(namedKey))
		}
	}
	add := func(g *graph) {
		for _, x := range g.data.All() {
			if name := x.String(constantKey); len(places[name]) > 0 {
				span := x.Span(constantKey)
				places[name] = append(places[name], flatbuf.Span{Offset: g.flat + span.Offset, Size: span.Size})
			}
		}
	}
	fault.Check(p.files.program().read(func(file []byte) {
		for _, m := range readMethods(c) {
			for _, d := range m.delegates {
				if d.backend == xnnpackBackend {
					add(readGraph(file, d.blob))
				}
			}
			for _, v := range m.values {
				if v.tensor != nil && v.tensor.content != nil {
					delete(places, v.tensor.content.name)
				}
			}
		}
	}))
	return places
}

// signature identifies what a node packs and how, for as much as the constants are known by their places.
func (p *plan) signature(w flow.Node) string {
	id := w.Packing(p.Bare)
	names := []string{id.Digest().String()}
	kernel, bias := w.Weights()
	for _, id := range []xnnpack.ValueID{kernel, bias} {
		if id != xnnpack.InvalidValue {
			names = append(names, p.values[id].places())
		}
	}
	return strings.Join(names, " ")
}

// places returns where a value's content and scales are.
func (v *value) places() string {
	var c, s stored
	if v.constant != nil {
		c = v.constant.stored
	}
	if v.scales != nil {
		s = *v.scales
	}
	return fmt.Sprint(c, s)
}

// overlaps reports whether the place of a constant is that of other named data, or of a tensor of a method.
func (p *Program) overlaps(c *constant, methods []method) bool {
	meets := func(span flatbuf.Span) bool {
		return span.Offset < c.at.Offset+c.at.Size && c.at.Offset < span.Offset+span.Size
	}
	for _, e := range p.files.program().contents.named {
		if e.name != c.name && meets(e.span) {
			return true
		}
	}
	for _, m := range methods {
		for _, v := range m.values {
			if v.tensor != nil && v.tensor.content != nil {
				if t := v.tensor.content; t.name == c.name || t.name == "" && meets(t.span) {
					return true
				}
			}
		}
	}
	return false
}

// keepShared keeps the kernels whose weights anything else than such nodes reads.
func (p *Program) keepShared(nodes map[*flow.Step]*weighedNode) {
	for changed := true; changed; {
		changed = false
		shared := map[string]bool{}
		part := p.plan.part()
		for _, s := range p.plan.steps {
			n := nodes[s]
			part.EachUse(s, func(id xnnpack.ValueID, _ flow.Use) {
				c := p.plan.values[id].constant
				if n == nil || n.reason != "" || c.name != n.kernel.name && c.name != n.bias.name {
					shared[c.name] = true
				}
			})
		}
		for _, n := range nodes {
			if n.reason == "" && (shared[n.kernel.name] || shared[n.bias.name]) {
				n.reason, changed = "read by others too, or its bias", true
			}
		}
	}
}

// neverFinite returns the values of which all elements are NaN or infinite if the nodes whose kernels are left out pack
// what a skeleton has.
func (p *plan) neverFinite(part flow.Part, nodes map[*flow.Step]*weighedNode) map[xnnpack.ValueID]bool {
	never := map[xnnpack.ValueID]bool{}
	floats := func(id xnnpack.ValueID) bool {
		v := &p.values[id]
		return !v.host && (v.tensor.Type == xnnpack.Float32 || v.tensor.Type == xnnpack.Float16)
	}
	finite := func(id xnnpack.ValueID) bool { return !never[id] }
	for _, s := range part.Steps { // each after those whose results it reads
		inputs, outputs := s.Operands()
		out := outputs[0]
		zeroed := nodes[s] != nil && nodes[s].reason == ""
		ok := false
		node, _ := s.Operation.(flow.Node)
		switch n := node.N.(type) {
		case xnnpack.FullyConnected:
			ok = zeroed && unbounded(n.Activation)
		case xnnpack.Convolution2D:
			ok = zeroed && unbounded(n.Activation)
		case xnnpack.DepthwiseConvolution2D:
			ok = zeroed && unbounded(n.Activation)
		case xnnpack.StaticConstantPad: // with other elements around
		case xnnpack.Unary:
			ok = n.Op == xnnpack.ConvertElements && !finite(n.Input)
		case xnnpack.Binary:
			sum := n.Op == xnnpack.Add || n.Op == xnnpack.Subtract
			ok = sum && unbounded(n.Activation) && (never[n.A] || never[n.B])
		default:
			ok = node.Moves() && !slices.ContainsFunc(inputs, finite)
		}
		never[out] = ok && floats(out)
	}
	return never
}
