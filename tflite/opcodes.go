package tflite

import "fmt"

// opcode is a value of the schema's BuiltinOperator.
type opcode int32

const (
	opAdd                opcode = 0
	opAveragePool2D      opcode = 1
	opConcatenation      opcode = 2
	opConv2D             opcode = 3
	opDepthwiseConv2D    opcode = 4
	opDepthToSpace       opcode = 5
	opDequantize         opcode = 6
	opEmbeddingLookup    opcode = 7
	opFloor              opcode = 8
	opFullyConnected     opcode = 9
	opL2Normalization    opcode = 11
	opLocalNormalization opcode = 13
	opLogistic           opcode = 14
	opMaxPool2D          opcode = 17
	opMul                opcode = 18
	opReLU               opcode = 19
	opReLUN1To1          opcode = 20
	opReLU6              opcode = 21
	opReshape            opcode = 22
	opResizeBilinear     opcode = 23
	opSoftmax            opcode = 25
	opSpaceToDepth       opcode = 26
	opTanh               opcode = 28
	opCustom             opcode = 32
	opPad                opcode = 34
	opGather             opcode = 36
	opBatchToSpaceND     opcode = 37
	opSpaceToBatchND     opcode = 38
	opTranspose          opcode = 39
	opMean               opcode = 40
	opSub                opcode = 41
	opDiv                opcode = 42
	opSqueeze            opcode = 43
	opSequenceLSTM       opcode = 44
	opStridedSlice       opcode = 45
	opExp                opcode = 47
	opTopK               opcode = 48
	opSplit              opcode = 49
	opLogSoftmax         opcode = 50
	opCast               opcode = 53
	opPReLU              opcode = 54
	opMaximum            opcode = 55
	opArgMax             opcode = 56
	opMinimum            opcode = 57
	opLess               opcode = 58
	opNeg                opcode = 59
	opPadV2              opcode = 60
	opGreater            opcode = 61
	opGreaterEqual       opcode = 62
	opLessEqual          opcode = 63
	opSelect             opcode = 64
	opSlice              opcode = 65
	opSin                opcode = 66
	opTransposeConv      opcode = 67
	opTile               opcode = 69
	opExpandDims         opcode = 70
	opEqual              opcode = 71
	opNotEqual           opcode = 72
	opLog                opcode = 73
	opSum                opcode = 74
	opSqrt               opcode = 75
	opRsqrt              opcode = 76
	opShape              opcode = 77
	opPow                opcode = 78
	opArgMin             opcode = 79
	opReduceProd         opcode = 81
	opReduceMax          opcode = 82
	opPack               opcode = 83
	opLogicalOr          opcode = 84
	opOneHot             opcode = 85
	opLogicalAnd         opcode = 86
	opLogicalNot         opcode = 87
	opUnpack             opcode = 88
	opReduceMin          opcode = 89
	opFloorDiv           opcode = 90
	opReduceAny          opcode = 91
	opSquare             opcode = 92
	opZerosLike          opcode = 93
	opFill               opcode = 94
	opFloorMod           opcode = 95
	opRange              opcode = 96
	opResizeNearest      opcode = 97
	opLeakyReLU          opcode = 98
	opSquaredDifference  opcode = 99
	opMirrorPad          opcode = 100
	opAbs                opcode = 101
	opSplitV             opcode = 102
	opCeil               opcode = 104
	opReverse            opcode = 105
	opAddN               opcode = 106
	opGatherND           opcode = 107
	opCos                opcode = 108
	opRank               opcode = 110
	opELU                opcode = 111
	opReverseSequence    opcode = 112
	opMatrixDiag         opcode = 113
	opQuantize           opcode = 114
	opMatrixSetDiag      opcode = 115
	opRound              opcode = 116
	opHardSwish          opcode = 117
	opIf                 opcode = 118
	opWhile              opcode = 119
	opSuppression4       opcode = 120
	opSuppression5       opcode = 121
	opScatterND          opcode = 122
	opSelectV2           opcode = 123
	opDensify            opcode = 124
	opSegmentSum         opcode = 125
	opBatchMatMul        opcode = 126
	opCumulativeSum      opcode = 128
	opCallOnce           opcode = 129
	opBroadcastTo        opcode = 130
	opRealFFT2D          opcode = 131
	opConv3D             opcode = 132
	opImag               opcode = 133
	opReal               opcode = 134
	opComplexAbs         opcode = 135
	opReduceAll          opcode = 140
	opVarHandle          opcode = 142
	opReadVariable       opcode = 143
	opAssignVariable     opcode = 144
	opBroadcastArgs      opcode = 145
	opBucketize          opcode = 147
	opGELU               opcode = 150
	opDynamicUpdateSlice opcode = 151
	opReLU0To1           opcode = 152
	opSegmentsProd       opcode = 153
	opSegmentsMax        opcode = 154
	opSegmentsSum        opcode = 155
	opArcTangent2        opcode = 156
	opSegmentsMin        opcode = 157
	opSign               opcode = 158

	// placeholderOpcode is what the old one-byte field holds where the code does not fit into it.
	placeholderOpcode opcode = 127
)

// opcodeNames has the schema's name of every builtin operator up to 161, so that an error can name those that cannot
// be run.
var opcodeNames = [...]string{
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
}

func (o opcode) String() string {
	if o >= 0 && int(o) < len(opcodeNames) {
		return opcodeNames[o]
	}
	return fmt.Sprintf("BUILTIN_%d", int32(o))
}
