package tflite

import (
	"fmt"
	"slices"
)

// The facts of TensorFlow Lite's schema, version 3 (schema.fbs), that this package reads: the slot of each field in
// its table, in the order the schema declares them, and the values of its enumerations.

const (
	fileIdentifier = "TFL3"
	schemaVersion  = 3
)

// The tables, and what the options of operators are.
const (
	// Model
	modelVersion        = 0
	modelOperatorCodes  = 1
	modelSubgraphs      = 2
	modelDescription    = 3
	modelBuffers        = 4
	modelMetadataBuffer = 5
	modelMetadata       = 6
	modelSignatures     = 7
	// Metadata
	metadataBuffer = 1
	// SignatureDef
	signatureInputs   = 0
	signatureOutputs  = 1
	signatureKey      = 2
	signatureSubgraph = 4
	// TensorMap
	mapName   = 0
	mapTensor = 1
	// OperatorCode
	codeDeprecatedBuiltin = 0
	codeCustom            = 1
	codeVersion           = 2
	codeBuiltin           = 3
	// SubGraph
	subgraphTensors   = 0
	subgraphInputs    = 1
	subgraphOutputs   = 2
	subgraphOperators = 3
	subgraphName      = 4
	subgraphDebug     = 5
	// Buffer; offset and size place bytes outside the flatbuffer and are valid if offset > 1
	bufferData   = 0
	bufferOffset = 1
	bufferSize   = 2
	// Tensor
	tensorShape        = 0
	tensorType         = 1
	tensorBuffer       = 2
	tensorName         = 3
	tensorQuantization = 4
	tensorSparsity     = 6
	tensorSignature    = 7 // of the shape, where -1 is a dimension that may be any
	tensorHasRank      = 8
	tensorExternal     = 10 // number of a buffer outside the file; 0 for none
	// QuantizationParameters
	quantizationScale       = 2
	quantizationZeroPoint   = 3
	quantizationDetailsType = 4
	quantizationDetails     = 5
	quantizationDimension   = 6
	// BlockwiseQuantization, which is of type 2 of a tensor's details
	detailsBlocks    = 2
	blocksScales     = 0
	blocksZeroPoints = 1
	blocksSize       = 2
	// SparsityParameters
	sparsityTraversalOrder = 0
	sparsityBlockMap       = 1
	sparsityDimMetadata    = 2
	// DimensionMetadata
	dimensionFormat       = 0
	dimensionDenseSize    = 1
	dimensionSegmentsType = 2
	dimensionSegments     = 3
	dimensionIndicesType  = 4
	dimensionIndices      = 5
	// DimensionType
	dimensionDense     = 0
	dimensionSparseCSR = 1
	// SparseIndexVector, whose every member is a table with the values in slot 0
	indexVectorInt32  = 1
	indexVectorUint16 = 2
	indexVectorUint8  = 3
	indexVectorValues = 0
	// Operator
	operatorCodeIndex          = 0
	operatorInputs             = 1
	operatorOutputs            = 2
	operatorOptionsType        = 3
	operatorOptions            = 4
	operatorCustomOptions      = 5
	operatorLargeOptionsOffset = 9
	operatorLargeOptionsSize   = 10
	operatorOptions2           = 12
	// types of an operator's options
	optionsAdd      = 11
	optionsMul      = 21
	optionsGather   = 23
	optionsReducer  = 27
	optionsDiv      = 29
	optionsPack     = 59
	optionsCallOnce = 103
	optionsRandom   = 114
	// Conv3DOptions, of the depth
	conv3DStrideD   = 1
	conv3DDilationD = 5
	// Pool2DOptions
	poolFilterWidth  = 3
	poolFilterHeight = 4
	// FullyConnectedOptions
	fullyConnectedActivation       = 0
	fullyConnectedWeightsFormat    = 1
	fullyConnectedKeepNumDims      = 2
	fullyConnectedAsymmetricInputs = 3
	// DepthwiseConv2DOptions
	depthwiseMultiplier = 3
	// ConcatenationOptions
	concatenationAxis       = 0
	concatenationActivation = 1
	// ResizeBilinearOptions
	resizeAlignCorners     = 2
	resizeHalfPixelCenters = 3
	// ResizeNearestNeighborOptions
	nearestAlignCorners     = 0
	nearestHalfPixelCenters = 1
	// AddOptions, SubOptions, MulOptions, DivOptions
	binaryActivation = 0
	// ReshapeOptions, ReducerOptions, SoftmaxOptions, LeakyReluOptions, DepthToSpaceOptions
	reshapeNewShape       = 0
	reducerKeepDims       = 0
	softmaxBeta           = 0
	leakyReluAlpha        = 0
	depthToSpaceBlockSize = 0
	// GatherOptions, PackOptions, UnpackOptions, CastOptions, GeluOptions, BatchMatMulOptions
	gatherAxis      = 0
	gatherBatchDims = 1
	packCount       = 0
	packAxis        = 1
	unpackAxis      = 1
	geluApproximate = 0
	adjointX        = 0
	adjointY        = 1
	// SqueezeOptions, SpaceToDepthOptions
	squeezeDims           = 0
	spaceToDepthBlockSize = 0
	// StridedSliceOptions
	sliceBeginMask      = 0
	sliceEndMask        = 1
	sliceEllipsisMask   = 2
	sliceNewAxisMask    = 3
	sliceShrinkAxisMask = 4
	sliceOffset         = 5
	// TransposeConvOptions
	transposeConvPadding    = 0
	transposeConvStrideW    = 1
	transposeConvStrideH    = 2
	transposeConvActivation = 3
	// ReverseSequenceOptions
	reverseSequenceAxis  = 0
	reverseSequenceBatch = 1
	// L2NormOptions, OneHotOptions, CumsumOptions, MirrorPadOptions
	l2Activation    = 0
	oneHotAxis      = 0
	cumsumExclusive = 0
	cumsumReverse   = 1
	mirrorPadMode   = 0
	// LocalResponseNormalizationOptions
	localRadius = 0
	localBias   = 1
	localAlpha  = 2
	localBeta   = 3
	// BucketizeOptions
	bucketBoundaries = 0
	// CallOnceOptions, VarHandleOptions
	callOnceInit = 0
	// RandomOptions
	randomSeed   = 0
	randomSeed2  = 1
	varContainer = 0
	varName      = 1
	// StablehloScatterOptions, StableHLOCompositeOptions, StablehloPadOptions
	scatterWindowDims   = 1
	scatterInserted     = 2
	scatterOperandDims  = 3
	scatterVectorDim    = 4
	scatterComputation  = 6
	compositeBody       = 1
	stablehloPadLow     = 0
	stablehloPadHigh    = 1
	stablehloPadBetween = 2
	// StablehloGatherOptions
	gatherOffsetDims = 0
	gatherCollapsed  = 1
	gatherStartMap   = 2
	gatherVectorDim  = 3
	gatherSizes      = 4
	// WhileOptions, IfOptions
	whileCondition = 0
	whileBody      = 1
	ifThen         = 0
	ifElse         = 1
	// UnidirectionalSequenceLSTMOptions
	lstmActivation     = 0
	lstmCellClip       = 1
	lstmProjectionClip = 2
	lstmTimeMajor      = 3
	lstmDiagonal       = 5
	// Padding
	paddingSame  = 0
	paddingValid = 1
	// ActivationFunctionType
	activationNone    = 0
	activationReLU    = 1
	activationReLUN1  = 2
	activationReLU6   = 3
	activationTanh    = 4
	activationSignBit = 5
)

// convolutionSlots has the slots of a convolution's options. The depth_multiplier of DepthwiseConv2DOptions is
// redundant and ignored, as TFLite does.
type convolutionSlots struct{ padding, strideH, strideW, dilationH, dilationW, activation int }

var (
	conv2D      = convolutionSlots{padding: 0, strideW: 1, strideH: 2, activation: 3, dilationW: 4, dilationH: 5}
	depthwise2D = convolutionSlots{padding: 0, strideW: 1, strideH: 2, activation: 4, dilationW: 5, dilationH: 6}
	conv3D      = convolutionSlots{padding: 0, strideW: 2, strideH: 3, activation: 4, dilationW: 6, dilationH: 7}
	pool2D      = convolutionSlots{padding: 0, strideW: 1, strideH: 2, activation: 5,
		dilationW: unset, dilationH: unset}
)

// unset is the slot of an option that an operator does not have.
const unset = 100

// elementType is the type of a tensor's elements, with TensorFlow Lite's numbers.
type elementType uint8

// The types of schema version 3 that are used by name.
const (
	typeFloat32   elementType = 0
	typeFloat16   elementType = 1
	typeInt32     elementType = 2
	typeUint8     elementType = 3
	typeInt64     elementType = 4
	typeString    elementType = 5
	typeBool      elementType = 6
	typeInt16     elementType = 7
	typeComplex64 elementType = 8
	typeInt8      elementType = 9
	typeResource  elementType = 13
	typeInt4      elementType = 17
	typeInt2      elementType = 19
	typeUint4     elementType = 20
)

var tensorTypes = [...]struct {
	name string
	size int // bytes an element; 0 where elements have no size of their own, or less than a byte
}{
	{"FLOAT32", 4}, {"FLOAT16", 2}, {"INT32", 4}, {"UINT8", 1}, {"INT64", 8}, {"STRING", 0}, {"BOOL", 1}, {"INT16", 2},
	{"COMPLEX64", 8}, {"INT8", 1}, {"FLOAT64", 8}, {"COMPLEX128", 16}, {"UINT64", 8}, {"RESOURCE", 0}, {"VARIANT", 0},
	{"UINT32", 4}, {"UINT16", 2}, {"INT4", 0}, {"BFLOAT16", 2},
	{"INT2", 0}, {"UINT4", 0},
}

// String returns the schema's name of the type.
func (t elementType) String() string {
	if int(t) < len(tensorTypes) {
		return tensorTypes[t].name
	}
	return fmt.Sprintf("TensorType(%d)", uint8(t))
}

// Size returns the bytes of one element, and 0 for a type whose elements do not take whole bytes of their own.
func (t elementType) Size() int {
	if int(t) < len(tensorTypes) {
		return tensorTypes[t].size
	}
	return 0
}

// opcode is the name of a value of the schema's BuiltinOperator.
type opcode string

// placeholderOpcode is what the old one-byte field holds where the number does not fit into it.
const placeholderOpcode = 127

// opcodeNames has the schema's name of every builtin operator, by its number.
var opcodeNames = [...]opcode{
	"ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE",
	"EMBEDDING_LOOKUP", "FLOOR", "FULLY_CONNECTED", "HASHTABLE_LOOKUP", "L2_NORMALIZATION", "L2_POOL_2D",
	"LOCAL_RESPONSE_NORMALIZATION", "LOGISTIC", "LSH_PROJECTION", "LSTM", "MAX_POOL_2D", "MUL", "RELU", "RELU_N1_TO_1",
	"RELU6", "RESHAPE", "RESIZE_BILINEAR", "RNN", "SOFTMAX", "SPACE_TO_DEPTH", "SVDF", "TANH", "CONCAT_EMBEDDINGS",
	"SKIP_GRAM", "CALL", "CUSTOM", "EMBEDDING_LOOKUP_SPARSE", "PAD", "UNIDIRECTIONAL_SEQUENCE_RNN", "GATHER",
	"BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "TRANSPOSE", "MEAN", "SUB", "DIV", "SQUEEZE",
	"UNIDIRECTIONAL_SEQUENCE_LSTM", "STRIDED_SLICE", "BIDIRECTIONAL_SEQUENCE_RNN", "EXP", "TOPK_V2", "SPLIT",
	"LOG_SOFTMAX", "DELEGATE", "BIDIRECTIONAL_SEQUENCE_LSTM", "CAST", "PRELU", "MAXIMUM", "ARG_MAX", "MINIMUM", "LESS",
	"NEG", "PADV2", "GREATER", "GREATER_EQUAL", "LESS_EQUAL", "SELECT", "SLICE", "SIN", "TRANSPOSE_CONV",
	"SPARSE_TO_DENSE", "TILE", "EXPAND_DIMS", "EQUAL", "NOT_EQUAL", "LOG", "SUM", "SQRT", "RSQRT", "SHAPE", "POW",
	"ARG_MIN", "FAKE_QUANT", "REDUCE_PROD", "REDUCE_MAX", "PACK", "LOGICAL_OR", "ONE_HOT", "LOGICAL_AND", "LOGICAL_NOT",
	"UNPACK", "REDUCE_MIN", "FLOOR_DIV", "REDUCE_ANY", "SQUARE", "ZEROS_LIKE", "FILL", "FLOOR_MOD", "RANGE",
	"RESIZE_NEAREST_NEIGHBOR", "LEAKY_RELU", "SQUARED_DIFFERENCE", "MIRROR_PAD", "ABS", "SPLIT_V", "UNIQUE", "CEIL",
	"REVERSE_V2", "ADD_N", "GATHER_ND", "COS", "WHERE", "RANK", "ELU", "REVERSE_SEQUENCE", "MATRIX_DIAG", "QUANTIZE",
	"MATRIX_SET_DIAG", "ROUND", "HARD_SWISH", "IF", "WHILE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5",
	"SCATTER_ND", "SELECT_V2", "DENSIFY", "SEGMENT_SUM", "BATCH_MATMUL", "PLACEHOLDER_FOR_GREATER_OP_CODES", "CUMSUM",
	"CALL_ONCE", "BROADCAST_TO", "RFFT2D", "CONV_3D", "IMAG", "REAL", "COMPLEX_ABS", "HASHTABLE", "HASHTABLE_FIND",
	"HASHTABLE_IMPORT", "HASHTABLE_SIZE", "REDUCE_ALL", "CONV_3D_TRANSPOSE", "VAR_HANDLE", "READ_VARIABLE",
	"ASSIGN_VARIABLE", "BROADCAST_ARGS", "RANDOM_STANDARD_NORMAL", "BUCKETIZE", "RANDOM_UNIFORM", "MULTINOMIAL", "GELU",
	"DYNAMIC_UPDATE_SLICE", "RELU_0_TO_1", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM",
	"ATAN2", "UNSORTED_SEGMENT_MIN", "SIGN", "BITCAST", "BITWISE_XOR", "RIGHT_SHIFT",
	"STABLEHLO_LOGISTIC", "STABLEHLO_ADD", "STABLEHLO_DIVIDE", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM",
	"STABLEHLO_RESHAPE", "STABLEHLO_CLAMP", "STABLEHLO_CONCATENATE", "STABLEHLO_BROADCAST_IN_DIM",
	"STABLEHLO_CONVOLUTION", "STABLEHLO_SLICE", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_REDUCE", "STABLEHLO_ABS",
	"STABLEHLO_AND", "STABLEHLO_COSINE", "STABLEHLO_EXPONENTIAL", "STABLEHLO_FLOOR", "STABLEHLO_LOG",
	"STABLEHLO_MINIMUM", "STABLEHLO_NEGATE", "STABLEHLO_OR", "STABLEHLO_POWER", "STABLEHLO_REMAINDER",
	"STABLEHLO_RSQRT", "STABLEHLO_SELECT", "STABLEHLO_SUBTRACT", "STABLEHLO_TANH", "STABLEHLO_SCATTER",
	"STABLEHLO_COMPARE", "STABLEHLO_CONVERT", "STABLEHLO_DYNAMIC_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE",
	"STABLEHLO_PAD", "STABLEHLO_IOTA", "STABLEHLO_DOT_GENERAL", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SORT",
	"STABLEHLO_WHILE", "STABLEHLO_GATHER", "STABLEHLO_TRANSPOSE", "DILATE", "STABLEHLO_RNG_BIT_GENERATOR",
	"REDUCE_WINDOW", "STABLEHLO_COMPOSITE", "STABLEHLO_SHIFT_LEFT", "STABLEHLO_CBRT", "STABLEHLO_CASE",
}

// numbered returns the operator of a number.
func numbered(n int) opcode {
	if n < 0 || n >= len(opcodeNames) {
		return opcode(fmt.Sprintf("BUILTIN_%d", n))
	}
	return opcodeNames[n]
}

// number returns the number of an operator that has a name.
func (o opcode) number() int { return slices.Index(opcodeNames[:], o) }
