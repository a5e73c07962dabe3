package executorch

import "fmt"

// The facts from ExecuTorch's schemas that this package reads: identifiers, and the slot of each field in its table, in
// the order the schema declares them.

// schemaVersion is the version of both root tables.
const schemaVersion = 0

// root is a kind of files: identifier, magic and least length of the header, and the slots of the root table.
type root struct {
	identifier, magic            string
	header                       uint32
	version, segments, namedData int
}

var (
	flatTensor = root{identifier: "FT01", magic: "FH01", header: 40, version: 0, segments: 1, namedData: 2}
	program    = root{identifier: "ET12", magic: "eh00", header: 24, version: 0, segments: 4, namedData: 7}
)

const (
	// DataSegment
	segmentOffset = 0
	segmentSize   = 1
	// NamedData; only a .ptd's has a TensorLayout
	namedKey     = 0
	namedSegment = 1
	namedTensor  = 2
	// TensorLayout
	tensorType     = 0
	tensorSizes    = 1
	tensorDimOrder = 2
)

// ScalarType is the type of a tensor's elements, with ExecuTorch's numbers, which are PyTorch's.
type ScalarType int8

// The types in ExecuTorch's scalar_type.fbs that models have.
const (
	Byte   ScalarType = 0 // unsigned
	Char   ScalarType = 1 // signed
	Short  ScalarType = 2
	Int    ScalarType = 3
	Long   ScalarType = 4
	Half   ScalarType = 5
	Float  ScalarType = 6
	Double ScalarType = 7
	// Two of single precision: the real and the imaginary part.
	ComplexFloat ScalarType = 9
	Bool         ScalarType = 11
	BFloat16     ScalarType = 15
	UInt16       ScalarType = 27
	UInt32       ScalarType = 28
	UInt64       ScalarType = 29
)

// scalarTypes has all of them. QUINT4X2 are two in a byte, QUINT2X4 four.
var scalarTypes = map[ScalarType]struct {
	name string
	size int
}{
	Byte: {"BYTE", 1}, Char: {"CHAR", 1}, Short: {"SHORT", 2}, Int: {"INT", 4}, Long: {"LONG", 8},
	Half: {"HALF", 2}, Float: {"FLOAT", 4}, Double: {"DOUBLE", 8}, BFloat16: {"BFLOAT16", 2}, Bool: {"BOOL", 1},
	8: {"COMPLEXHALF", 4}, ComplexFloat: {"COMPLEXFLOAT", 8}, 10: {"COMPLEXDOUBLE", 16},
	12: {"QINT8", 1}, 13: {"QUINT8", 1}, 14: {"QINT32", 4}, 16: {"QUINT4X2", 1}, 17: {"QUINT2X4", 1},
	22: {"BITS16", 2}, 23: {"FLOAT8E5M2", 1}, 24: {"FLOAT8E4M3FN", 1}, 25: {"FLOAT8E5M2FNUZ", 1},
	26: {"FLOAT8E4M3FNUZ", 1}, UInt16: {"UINT16", 2}, UInt32: {"UINT32", 4}, UInt64: {"UINT64", 8},
}

// String returns the schema's name of the type.
func (t ScalarType) String() string {
	if scalar, ok := scalarTypes[t]; ok {
		return scalar.name
	}
	return fmt.Sprintf("ScalarType(%d)", int8(t))
}

// Size returns how many bytes ExecuTorch keeps an element in, and 0 if the type is not one of the constants.
func (t ScalarType) Size() int { return scalarTypes[t].size }
