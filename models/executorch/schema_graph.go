package executorch

import "xpwc/xnnpack"

// The facts of the XNNPACK delegate's blob: its header, and the slots of runtime_schema.fbs.

const (
	graphMagic       = "XH00"
	graphMagicOffset = 4
	// The header's fields are little-endian and unaligned: length (2 bytes), offset and size of the flatbuffer
	// (4 each), offset (4) and size (8) of the constants.
	graphHeaderSize = 30
)

// graphIdentifiers are the flatbuffer's. The schema is the same.
var graphIdentifiers = []string{"XN01", "XN00"}

const (
	// XNNGraph
	graphNodes          = 1
	graphValues         = 2
	graphConstantBuffer = 6
	graphConstantData   = 8
	// ConstantDataOffset
	constantOffset = 0
	constantSize   = 1
	constantKey    = 2
	// XValue, a union
	xvalueType = 0
	xvalueVal  = 1
	// types of an XValue
	xvalueTensor    = 1
	xvalueQuantized = 2
	// XNNTensorValue
	xtensorDatatype   = 0
	xtensorDims       = 2
	xtensorConstant   = 3
	xtensorExternal   = 4
	xtensorFlags      = 5
	xtensorID         = 6
	xtensorDQDatatype = 7
	// flags of an XNNTensorValue
	externalInput  = 1
	externalOutput = 2
	// XNNQuantizedTensorValue
	quantizedTensor     = 0
	quantizedParamsType = 1
	quantizedParams     = 2
	// types of its parameters
	perChannel = 1
	perTensor  = 2
	perToken   = 3
	perGroup   = 4
	// PerTensorQuant
	perTensorScale     = 0
	perTensorZeroPoint = 1
	// PerChannelQuant
	perChannelScale  = 0
	perChannelDim    = 1
	perChannelBuffer = 2
	// PerTokenDynamicQuant
	perTokenNonBatchDims = 0
	// PerChannelGroupQuant
	perGroupScale  = 0
	perGroupDim    = 1
	perGroupSize   = 2
	perGroupBuffer = 4
	// XNode, a union
	xnodeType   = 0
	xnodeVal    = 1
	xnodeHandle = 2
	xnodeMinMax = 3
)

// xdatatypes gives XNNPACK's datatypes by the schema's numbers, which are ExecuTorch's own.
var xdatatypes = [...]xnnpack.Datatype{
	1: xnnpack.Float32, 2: xnnpack.Float16, 3: xnnpack.QInt8, 4: xnnpack.QUint8, 5: xnnpack.QInt32,
	6: xnnpack.ChannelQInt8, 7: xnnpack.ChannelQInt32, 8: xnnpack.ChannelQInt4, 9: xnnpack.DynamicQInt8,
	10: xnnpack.BlockQInt4, 11: xnnpack.PackedQInt8, 12: xnnpack.Int32, 13: xnnpack.PackedFloat32, 14: xnnpack.BFloat16,
}

func xdatatype(n int16) xnnpack.Datatype {
	if n <= 0 || int(n) >= len(xdatatypes) {
		unsupported("datatype %d", n)
	}
	return xdatatypes[n]
}

// The flags of nodes, with XNNPACK's numbers.
const (
	flagTransposeWeights = 1 << 0
	flagSamePadding      = 1 << 2
	flagLegacyMode       = 1 << 2
	flagAlignCorners     = 1 << 3
	flagKeepDims         = 1 << 6
)

// invalidID is the ID of a value that is not there (XNN_INVALID_VALUE_ID).
const invalidID = 1<<32 - 1
