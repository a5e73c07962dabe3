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

	// Of fully connected nodes alone:
	has       func() bool                                   // whether this is such a processor, as XNNPACK sees it
	hit       func(rows, inputChannels, blockSize int) bool // whether a node of these shapes is concerned
	rowsCount bool                                          // whether other rows can make a node wrong that is right
}

// Those of Debian's XNNPACK of 2024-11-08 (4ea82e5) are of fully connected nodes with DynamicQInt8 and BlockQInt4.
const build4ea82e5 = "e595e247f4f7883e207f22da0798400cd2a03c85a8ba85aeec808340402dba5b"

var knownDefects = []KnownDefect{
	{
		Build:     build4ea82e5,
		CPU:       "x86 with AVX-512 VNNI and GFNI",
		Node:      "fully connected, dynamically quantised input of 1 to 3 rows above a multiple of 14, 4-bit blocks",
		Effect:    "wrong numbers in the last row",
		has:       func() bool { return hasLevel("avx512vnni") && hasLevel("avx512vnnigfni") },
		hit:       func(rows, _, _ int) bool { return rows > 1 && rows%14 >= 1 && rows%14 <= 3 },
		rowsCount: true,
	},
	{
		Build:  build4ea82e5,
		CPU:    "x86 with less than AVX2",
		Node:   "fully connected, dynamically quantised input, 4-bit blocks, an odd number of them in a row",
		Effect: "a crash",
		has:    func() bool { return runtime.GOARCH == "amd64" && !hasLevel("avx2") },
		hit:    func(_, in, block int) bool { return in/block%2 == 1 },
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

// follows notes that an elementwise node computes out of in.
func (s *Subgraph) follows(in, out ValueID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to := s.values[in], s.values[out]
	if from.row > 0 || from.kind == QInt8 || from.kind == QUint8 {
		to.row = max(to.row, from.row+1)
		s.tabulates = s.tabulates || to.row >= tabulated
	}
}

// KnownDefects returns what is known of all builds. Where one applies that is not avoided, a node that it concerns
// cannot be defined: the error matches ErrKnownDefect.
func KnownDefects() []KnownDefect { return slices.Clone(knownDefects) }

// defectOf returns an error if the XNNPACK in use computes a fully connected node of these operands wrongly on this
// processor, and otherwise the defect that the node would have with other rows, if there is one.
func defectOf(input, filter *value) (otherRows *KnownDefect, err error) {
	if input.kind != DynamicQInt8 || filter.kind != BlockQInt4 {
		return nil, nil
	}
	rank := len(input.shape)
	rows := 1
	for _, d := range input.shape[:rank-1] {
		rows *= d
	}
	for i := range knownDefects {
		d := &knownDefects[i]
		switch {
		case d.hit == nil || d.Build != BuildIdentifier() || !d.has():
		case d.hit(rows, input.shape[rank-1], filter.blockSize):
			return nil, d.error()
		case d.rowsCount:
			otherRows = d
		}
	}
	return otherRows, nil
}

func (d *KnownDefect) error() error {
	return fmt.Errorf("%w (%.8s…) on %s: %s: %s; use a newer XNNPACK, such as that of ExecuTorch's wheel: %w",
		ErrKnownDefect, d.Build, d.CPU, d.Node, d.Effect, UnsupportedHardware)
}

func hasLevel(name string) bool { return cHasCPULevel(slices.Index(levelNames, name)) }
