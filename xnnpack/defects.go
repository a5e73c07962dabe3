package xnnpack

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
)

// ErrKnownDefect is matched by the error for a node that the XNNPACK in use is known to compute wrongly, or to crash
// on, on this processor. Nothing is computed. The way out is a newer XNNPACK.
var ErrKnownDefect = errors.New("a known defect of this XNNPACK")

// KnownDefect is a fault of one build of XNNPACK on some processors.
type KnownDefect struct {
	Build  string // of BuildIdentifier
	CPU    string // the processors, in words
	Node   string // the node and its shapes, in words
	Effect string // what XNNPACK would do

	// Of products of matrices alone:
	onCPU     func() bool          // whether this is such a processor, as XNNPACK sees it
	hit       func(p product) bool // whether a node is concerned
	rowsCount bool                 // whether other rows can make a node of 4-bit blocks wrong that is right
}

// A product of matrices is a fully connected node, or a batch matrix multiplication.
type product struct {
	input, weights        Datatype
	rows, inputs, outputs int
	block                 int // size of the weights' blocks
}

// blocks4 reports whether the weights are blocks of 4 bits, and the input is quantised at inference.
func (p product) blocks4() bool { return p.input == DynamicQInt8 && p.weights == BlockQInt4 }

// That of Debian, of 2024-11-08 (4ea82e5).
const build4ea82e5 = "e595e247f4f7883e207f22da0798400cd2a03c85a8ba85aeec808340402dba5b"

var knownDefects = []KnownDefect{
	{
		Build:     build4ea82e5,
		CPU:       "x86 with AVX-512 VNNI and GFNI",
		Node:      "fully connected, dynamically quantised input of 1 to 3 rows above a multiple of 14, 4-bit blocks",
		Effect:    "wrong numbers in the last row",
		onCPU:     func() bool { return hasLevel("avx512vnni") && hasLevel("avx512vnnigfni") },
		hit:       func(p product) bool { return p.blocks4() && p.rows > 1 && p.rows%14 >= 1 && p.rows%14 <= 3 },
		rowsCount: true,
	},
	{
		Build:  build4ea82e5,
		CPU:    "x86 with less than AVX2",
		Node:   "fully connected, dynamically quantised input, 4-bit blocks, an odd number of them in a row",
		Effect: "a crash",
		onCPU:  func() bool { return runtime.GOARCH == "amd64" && !hasLevel("avx2") },
		hit:    func(p product) bool { return p.blocks4() && p.inputs/p.block%2 == 1 },
	},
	{
		Build:  build4ea82e5,
		CPU:    "x86 with AVX-512 FP16",
		Node:   "fully connected or batch matrix multiplication in half precision, 64 output channels or more",
		Effect: "wrong numbers",
		onCPU:  func() bool { return hasLevel("avx512fp16") },
		hit:    func(p product) bool { return p.weights == Float16 && p.outputs >= 64 },
	},
	{
		Build:  build4ea82e5,
		CPU:    "x86 with AMX",
		Node:   "fully connected, dynamically quantised input, weights of 4 bits with a scale for each channel",
		Effect: "other numbers in each run",
		onCPU:  func() bool { return hasLevel("avx512amx") },
		hit:    func(p product) bool { return p.input == DynamicQInt8 && p.weights == ChannelQInt4 },
	},
	{
		Build:  "78e8776e742aaec2e0f3c3ef26613bab845df743a5047533d6900dea608b1385",
		CPU:    "all",
		Node:   "10 elementwise nodes in a row, from and to 8-bit quantised values",
		Effect: "a crash; so none of the model's nodes are fused",
	},
}

// XNNPACK makes a table of up to so many elementwise nodes in a row that begin and end with 8-bit values. Until commit
// bbccbb33ec of August 2026 it crashed over a row of just as many (src/subgraph.c).
const tabulated = 10

// noFusion is XNN_FLAG_NO_OPERATOR_FUSION of XNNPACK's src/xnnpack/subgraph.h.
const noFusion RuntimeFlags = 1 << 31

// follows notes that an elementwise node computes one value of another.
func (s *Subgraph) follows(src, dst *value) {
	if src.row > 0 || src.Type == QInt8 || src.Type == QUint8 {
		dst.row = max(dst.row, src.row+1)
		s.tabulates = s.tabulates || dst.row >= tabulated
	}
}

// KnownDefects returns what is known of all builds. Where one applies that is not avoided, a node that it concerns
// cannot be defined: the error matches ErrKnownDefect.
func KnownDefects() []KnownDefect { return slices.Clone(knownDefects) }

// active reports whether the XNNPACK in use has the defect on this processor, and nodes can avoid it.
func (d *KnownDefect) active() bool { return d.hit != nil && d.Build == BuildIdentifier() && d.onCPU() }

// defectOf returns an error if the XNNPACK in use computes a product of these operands wrongly on this processor.
func defectOf(input, weights *value, outputs int) error {
	rank := len(input.Shape)
	p := product{input: input.Type, weights: weights.Type, rows: Elements(input.Shape[:rank-1]),
		inputs: input.Shape[rank-1], outputs: outputs, block: weights.Quantization.BlockSize}
	for _, d := range knownDefects {
		if d.active() && d.hit(p) {
			return d.error()
		}
	}
	return nil
}

// FullyConnectedDefect returns the error, which matches ErrKnownDefect, of a FullyConnected node with an input and a
// filter, [output channels, input channels], if the XNNPACK in use computes it wrongly on this processor. It
// initializes an XNNPACK that has defects.
func FullyConnectedDefect(input, filter Tensor) error {
	concerns := func(d KnownDefect) bool { return d.hit != nil && d.Build == BuildIdentifier() }
	if !slices.ContainsFunc(knownDefects, concerns) {
		return nil
	}
	if err := Initialize(); err != nil {
		return err
	}
	return defectOf(&value{Tensor: input}, &value{Tensor: filter}, filter.Shape[0])
}

// rowDefect returns the defect that a node of the subgraph could have with other rows, or nil.
func (s *Subgraph) rowDefect() *KnownDefect {
	blocks := slices.ContainsFunc(s.values, func(v *value) bool { return v != nil && v.Type == BlockQInt4 })
	for i := range knownDefects {
		if d := &knownDefects[i]; blocks && d.rowsCount && d.active() {
			return d
		}
	}
	return nil
}

func (d *KnownDefect) error() error {
	return fmt.Errorf("%w (%.8s…) on %s: %s: %s; use a newer XNNPACK, such as the one in ExecuTorch's wheel: %w",
		ErrKnownDefect, d.Build, d.CPU, d.Node, d.Effect, UnsupportedHardware)
}

func hasLevel(name string) bool { return cHasCPULevel(slices.Index(levelNames, name)) }
