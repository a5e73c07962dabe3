package tflite

import (
	"math"

	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// supported has every builtin operator that can run, by its name in the schema. The rules for
// the datatypes of weights are in types.go.
var supported = map[opcode]operatorRow{
	"ABS":                          unaryRow(operators.Abs),
	"ADD":                          binaryRow(operators.Sum, bytes8, binaryActivation),
	"ADD_N":                        {plan: planAddN, takes: widened},
	"ARG_MAX":                      {takes: bytes8, inGo: planArg(operators.ArgMax)},
	"ATAN2":                        binaryRow(operators.ArcTangent, widened, absent),
	"ARG_MIN":                      {takes: bytes8, inGo: planArg(operators.ArgMin)},
	"AVERAGE_POOL_2D":              {plan: planPool(true), takes: widened},
	"BATCH_MATMUL":                 {plan: planBatchMatMul, takes: widened},
	"BATCH_TO_SPACE_ND":            {plan: planBatchToSpace, takes: bytes8, inGo: planBatchToSpace},
	"BROADCAST_ARGS":               {inGo: planBroadcastArgs},
	"BROADCAST_TO":                 {plan: planBroadcastTo, takes: bytes8, inGo: planBroadcastTo},
	"BUCKETIZE":                    {takes: widened, inGo: planBucketize},
	"CAST":                         {takes: complexes, inGo: planCast},
	"CEIL":                         unaryRow(operators.Ceiling),
	"COMPLEX_ABS":                  {takes: complexes, inGo: planComplex(operators.Magnitudes())},
	"CONCATENATION":                {plan: planConcatenation, takes: bytes8, inGo: planConcatenation},
	"CONV_2D":                      {plan: planConv2D, takes: bytes8},
	"CONV_3D":                      {plan: planConv3D},
	"CONV_3D_TRANSPOSE":            {plan: planConv3DTranspose},
	"COS":                          unaryRow(operators.Cosine),
	"CUMSUM":                       {takes: widened, inGo: planCumulativeSum},
	"DENSIFY":                      {plan: planDensify},
	"DEPTH_TO_SPACE":               {plan: planDepthToSpace, takes: bytes8},
	"DEPTHWISE_CONV_2D":            {plan: planDepthwiseConv2D, takes: bytes8},
	"DEQUANTIZE":                   {plan: planDequantize, takes: bytes8},
	"DIV":                          binaryRow(operators.Quotient, widened, binaryActivation),
	"DYNAMIC_UPDATE_SLICE":         {takes: bytes8, inGo: planDynamicUpdateSlice},
	"ELU":                          unaryRow(operators.ELU),
	"EMBEDDING_LOOKUP":             {takes: bytes8, inGo: planEmbedding},
	"EQUAL":                        comparisonRow(operators.EqualTo),
	"EXP":                          unaryRow(operators.Exp),
	"EXPAND_DIMS":                  {plan: planExpandDims, takes: bytes8 | complexes, inGo: planExpandDims},
	"FILL":                         {takes: bytes8, inGo: planFill},
	"FLOOR":                        unaryRow(operators.Floor),
	"FLOOR_DIV":                    binaryRow(operators.FloorQuotient, bytes8, absent),
	"FLOOR_MOD":                    binaryRow(operators.FloorRemainder, bytes8, absent),
	"FULLY_CONNECTED":              {plan: planFullyConnected, takes: bytes8},
	"GATHER":                       {plan: planGatherPart, takes: bytes8, inGo: planGather},
	"GATHER_ND":                    {takes: bytes8, inGo: planGatherND},
	"GELU":                         {plan: planGELU, takes: widened},
	"GREATER":                      comparisonRow(operators.Greater),
	"GREATER_EQUAL":                comparisonRow(operators.GreaterOrEqual),
	"HARD_SWISH":                   unaryRow(operators.HardSwish),
	"IMAG":                         {takes: complexes, inGo: planComplex(operators.FromComplex(imagPart))},
	"L2_NORMALIZATION":             {plan: planL2Normalization, takes: widened},
	"LEAKY_RELU":                   {plan: planLeakyReLU, takes: bytes8},
	"LESS":                         comparisonRow(operators.Less),
	"LESS_EQUAL":                   comparisonRow(operators.LessOrEqual),
	"LOG":                          {plan: planLog, takes: widened, inGo: planFunction(logarithm)},
	"LOCAL_RESPONSE_NORMALIZATION": {takes: widened, inGo: planLocalNormalization},
	"LOGICAL_AND":                  comparisonRow(operators.And),
	"LOGICAL_NOT":                  hostedRow(operators.Negation(), 0),
	"LOGICAL_OR":                   comparisonRow(operators.Or),
	"LOGISTIC":                     unaryRow(operators.Sigmoid),
	"LOG_SOFTMAX":                  {plan: planLogSoftmax, takes: widened},
	"MATRIX_DIAG":                  {takes: bytes8, inGo: planMatrixDiag},
	"MATRIX_SET_DIAG":              {takes: bytes8, inGo: planMatrixSetDiag},
	"MAXIMUM":                      binaryRow(operators.Maximum, widened, absent),
	"MAX_POOL_2D":                  {plan: planPool(false), takes: bytes8},
	"MEAN": {plan: planReduce(xnnpack.ReduceMean), takes: widened,
		inGo: planReduced(operators.Mean)},
	"MINIMUM":    binaryRow(operators.Minimum, widened, absent),
	"MIRROR_PAD": {takes: bytes8, inGo: planMirrorPad},
	"MUL":        binaryRow(operators.Product, bytes8, binaryActivation),
	"NEG":        unaryRow(operators.Negate),
	"NOT_EQUAL":  comparisonRow(operators.NotEqual),
	"ONE_HOT":    {inGo: planOneHot},
	"PACK":       {plan: planPack, takes: bytes8, inGo: planPack},
	"PAD":        {plan: planPad, takes: bytes8, inGo: planPad},
	"PADV2":      {plan: planPad, takes: widened, inGo: planPad},
	"POW":        binaryRow(operators.Power, widened, absent),
	"PRELU":      {plan: planPReLU, takes: widened},
	"QUANTIZE":   {plan: (*call).convert, takes: bytes8},
	"RANGE":      {inGo: planRange},
	"RANK":       {inGo: planShape(shapeRank)},
	"REAL":       {takes: complexes, inGo: planComplex(operators.FromComplex(realPart))},
	"RFFT2D":     {takes: complexes, inGo: planRealFFT2D},
	"REDUCE_ALL": {inGo: planReduced(reducing(operators.And))},
	"REDUCE_ANY": {inGo: planReduced(reducing(operators.Or))},
	"REDUCE_MAX": {plan: planReduceMax, takes: bytes8,
		inGo: planReduced(reducing(operators.Maximum))},
	"REDUCE_MIN": {plan: planReduceMax, takes: widened,
		inGo: planReduced(reducing(operators.Minimum))},
	"REDUCE_PROD":             {takes: widened, inGo: planReduced(reducing(operators.Product))},
	"RELU":                    unaryRow(operators.ReLU),
	"RELU_0_TO_1":             unaryRow(operators.Limit(0, 1)),
	"RELU6":                   unaryRow(operators.Limit(0, 6)),
	"RELU_N1_TO_1":            unaryRow(operators.Limit(-1, 1)),
	"RESHAPE":                 {plan: planReshape, takes: bytes8 | complexes, inGo: planReshape},
	"RESIZE_BILINEAR":         {plan: planResizeBilinear, takes: bytes8},
	"RESIZE_NEAREST_NEIGHBOR": {plan: planResizeNearest, takes: bytes8, inGo: planResizeNearest},
	"REVERSE_V2":              {takes: bytes8, inGo: planReverse},
	"REVERSE_SEQUENCE":        {takes: bytes8, inGo: planReverseSequence},
	"ROUND":                   unaryRow(operators.Round),
	"RSQRT":                   unaryRow(operators.ReciprocalSquareRoot),
	"SCATTER_ND":              {takes: widened, inGo: planScatterND},
	"SEGMENT_SUM":             {inGo: planSegments(operators.Sum, 0, 0)},
	"SELECT":                  {takes: bytes8, inGo: planSelect},
	"SELECT_V2":               {takes: bytes8, inGo: planSelect},
	"SHAPE":                   {takes: bytes8, inGo: planShape(dimensions)},
	"SIGN":                    unaryRow(operators.Sign),
	"SIN":                     unaryRow(operators.Sine),
	"SLICE":                   {plan: planSlice, takes: bytes8, inGo: planSlice},
	"SOFTMAX":                 {plan: planSoftmax, takes: widened},
	"SPACE_TO_BATCH_ND":       {plan: planSpaceToBatch, takes: bytes8, inGo: planSpaceToBatch},
	"SPACE_TO_DEPTH":          {plan: planSpaceToDepth, takes: bytes8},
	"SPLIT":                   {plan: planSplit, takes: bytes8, inGo: planSplit},
	"SPLIT_V":                 {plan: planSplitV, takes: bytes8, inGo: planSplitV},
	"SQRT":                    unaryRow(operators.SquareRoot),
	"SQUARE":                  unaryRow(operators.Square),
	"SQUARED_DIFFERENCE":      binaryRow(operators.SquaredDifference, widened, absent),
	"SQUEEZE":                 {plan: planSqueeze, takes: bytes8 | complexes, inGo: planSqueeze},
	"STRIDED_SLICE":           {plan: planStridedSlice, takes: bytes8, inGo: planStridedSlice},
	"STABLEHLO_ADD":           binaryRow(operators.Sum, bytes8, absent),
	"STABLEHLO_GATHER":        {takes: bytes8, inGo: planGatherWindows},
	"STABLEHLO_MAXIMUM":       binaryRow(operators.Maximum, widened, absent),
	"STABLEHLO_MINIMUM":       binaryRow(operators.Minimum, widened, absent),
	"STABLEHLO_MULTIPLY":      binaryRow(operators.Product, bytes8, absent),
	"STABLEHLO_PAD":           {takes: bytes8, inGo: planPadInside},
	"STABLEHLO_SCATTER":       {takes: bytes8, inGo: planScatterWindows},
	"SUB":                     binaryRow(operators.Difference, bytes8, binaryActivation),
	"NON_MAX_SUPPRESSION_V4":  {inGo: planSuppression},
	"NON_MAX_SUPPRESSION_V5":  {inGo: planSuppression},
	"SUM": {plan: planReduce(xnnpack.ReduceSum), takes: widened,
		inGo: planReduced(reducing(operators.Sum))},
	"TANH":                  unaryRow(operators.Tanh),
	"TILE":                  {plan: planTile, takes: bytes8, inGo: planTile},
	"TOPK_V2":               {inGo: planTopK},
	"TRANSPOSE":             {plan: planTranspose, takes: bytes8, inGo: planTranspose},
	"TRANSPOSE_CONV":        {plan: planTransposeConv, takes: bytes8},
	"UNPACK":                {plan: planUnpack, takes: bytes8, inGo: planUnpack},
	"UNSORTED_SEGMENT_MAX":  {inGo: planSegments(operators.Maximum, -math.MaxFloat32, math.MinInt32)},
	"UNSORTED_SEGMENT_MIN":  {inGo: planSegments(operators.Minimum, math.MaxFloat32, math.MaxInt32)},
	"UNSORTED_SEGMENT_PROD": {inGo: planSegments(operators.Product, 1, 1)},
	"UNSORTED_SEGMENT_SUM":  {inGo: planSegments(operators.Sum, 0, 0)},
	"ZEROS_LIKE":            {inGo: planShape(noNumbers)},
}

// customOperators has the operators that models name themselves.
var customOperators = map[string]operatorRow{
	"Convolution2DTransposeBias":   {plan: planTransposeConvBias},
	"TFLite_Detection_PostProcess": {takes: widened, inGo: planDetection},
}

var logarithm = operators.Function{Number: math.Log}

// unaryRow returns the row of an operator that computes each element from one.
func unaryRow(f operators.Function) operatorRow {
	row := operatorRow{takes: widened}
	if f.Node != nil {
		row.plan = planUnary(*f.Node)
	}
	switch {
	case f.Number != nil:
		row.inGo = planFunction(f)
	case f.Whole != nil:
		row.inGo = planMapped(f)
	}
	return row
}

// binaryRow returns the row of an operator that computes each element from two. The slot is its fused activation's, if
// it can have one.
func binaryRow(o operators.Operation, values takes, slot int) operatorRow {
	row := operatorRow{takes: values, inGo: planCombined(o, slot)}
	if o.Node != nil {
		row.plan = planBinary(*o.Node, slot)
	}
	return row
}

// comparisonRow returns the row of a comparison, or of a logical operation.
func comparisonRow(o operators.Operation) operatorRow {
	return operatorRow{takes: widened, inGo: func(c *call) { c.combined(o) }}
}

// hostedRow returns the row of an operator that Go computes from operand 0.
func hostedRow(op operators.Operator, values takes) operatorRow {
	return operatorRow{takes: values, inGo: func(c *call) { c.host(op, 0) }}
}
