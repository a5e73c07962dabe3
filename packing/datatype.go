package packing

import "fmt"

// A Datatype is the type of a tensor's elements: enum xnn_datatype of xnnpack.h, by number, also of those that this
// package has no name for. The zero Datatype (xnn_datatype_invalid) says that there is no such tensor.
type Datatype uint8

// The datatypes that are not floats, as far as it is known how their quantisation is described.
const (
	qInt8         Datatype = 3
	qUint8        Datatype = 4
	qInt32        Datatype = 5
	channelQInt8  Datatype = 6
	channelQInt32 Datatype = 7
	channelQInt4  Datatype = 8
	dynamicQInt8  Datatype = 9
	packedQInt8   Datatype = 10
	int32s        Datatype = 11
	blockQInt4    Datatype = 12
	dynamicQUint8 Datatype = 15
	channelQInt2  Datatype = 18
)

var datatypes = [...]struct {
	name  string
	bits  int
	float bool
}{
	0:             {name: "none"},
	1:             {"fp32", 32, true},
	2:             {"fp16", 16, true},
	qInt8:         {"qint8", 8, false},
	qUint8:        {"quint8", 8, false},
	qInt32:        {"qint32", 32, false},
	channelQInt8:  {"qcint8", 8, false},
	channelQInt32: {"qcint32", 32, false},
	channelQInt4:  {"qcint4", 4, false},
	dynamicQInt8:  {"qdint8", 8, false},
	packedQInt8:   {"qpint8", 8, false},
	int32s:        {"int32", 32, false},
	blockQInt4:    {"qbint4", 4, false},
	13:            {"pfp32", 32, true},
	14:            {"bf16", 16, true},
	dynamicQUint8: {"qduint8", 8, false},
	16:            {"pfp16", 16, true},
	17:            {"pqint8", 8, false},
	channelQInt2:  {"qcint2", 2, false},
	19:            {"qint4", 4, false},
	20:            {"qint2", 2, false},
}

// String returns XNNPACK's own short name, e.g. "qcint4".
func (d Datatype) String() string {
	if int(d) < len(datatypes) {
		return datatypes[d].name
	}
	return fmt.Sprintf("datatype %d", uint8(d))
}

// Size returns the size of one element in bits; 0 if it is not known, or there is no tensor.
func (d Datatype) Size() int {
	if int(d) < len(datatypes) {
		return datatypes[d].bits
	}
	return 0
}

// Dynamic reports whether elements are quantised at inference. XNNPACK packs the bias of a node with such an input in
// without naming it in its key.
func (d Datatype) Dynamic() bool { return d == dynamicQInt8 || d == packedQInt8 || d == dynamicQUint8 }

// Channelwise reports whether elements are quantised with Quantization.Scales.
func (d Datatype) Channelwise() bool { return d.quantization() == channelwise }

// Blockwise reports whether elements are quantised with Quantization.BlockScales.
func (d Datatype) Blockwise() bool { return d.quantization() == blockwise }

func (d Datatype) float() bool { return int(d) < len(datatypes) && datatypes[d].float }
