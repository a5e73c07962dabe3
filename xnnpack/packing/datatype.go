package packing

import "fmt"

// A Datatype is the type of a tensor's elements: enum xnn_datatype of xnnpack.h. Numbers that this package does not
// name are valid too. The zero Datatype (xnn_datatype_invalid) means that there is no such tensor.
type Datatype uint8

// A quantization is the kind of a datatype's quantisation parameters.
type quantization int

const (
	unquantized quantization = iota
	float                    // none, and the numbers are floating-point ones
	perTensor
	channelwise
	blockwise
	dynamic
	unknown // all parameters count
)

var datatypes = [...]struct {
	name string
	bits int
	quantization
}{
	0:  {"none", 0, unquantized},
	1:  {"fp32", 32, float},
	2:  {"fp16", 16, float},
	3:  {"qint8", 8, perTensor},
	4:  {"quint8", 8, perTensor},
	5:  {"qint32", 32, perTensor},
	6:  {"qcint8", 8, channelwise},
	7:  {"qcint32", 32, channelwise},
	8:  {"qcint4", 4, channelwise},
	9:  {"qdint8", 8, dynamic},
	10: {"qpint8", 8, dynamic},
	11: {"int32", 32, unquantized},
	12: {"qbint4", 4, blockwise},
	13: {"pfp32", 32, float},
	14: {"bf16", 16, float},
	15: {"qduint8", 8, dynamic},
	16: {"pfp16", 16, float},
	17: {"pqint8", 8, unknown},
	18: {"qcint2", 2, channelwise},
	19: {"qint4", 4, unknown},
	20: {"qint2", 2, unknown},
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

func (d Datatype) quantization() quantization {
	if int(d) < len(datatypes) {
		return datatypes[d].quantization
	}
	return unknown
}

// Dynamic reports whether elements are quantised at inference. XNNPACK packs the bias of a node with such an input in
// without naming it in its key.
func (d Datatype) Dynamic() bool { return d.quantization() == dynamic }

// Channelwise reports whether elements are quantised with Quantization.Scales.
func (d Datatype) Channelwise() bool { return d.quantization() == channelwise }

// Blockwise reports whether elements are quantised with Quantization.BlockScales.
func (d Datatype) Blockwise() bool { return d.quantization() == blockwise }

func (d Datatype) float() bool { return d.quantization() == float }
