package tflite

import (
	"math"
	"math/cmplx"

	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// takes says which values an operator computes with beside those in single precision. In Go it also computes with
// integers and booleans.
type takes uint8

const (
	// bytes8: int8 and uint8, as XNNPACK's kernels for them do, or as they are stored.
	bytes8 takes = 1 << iota
	// widened: int8 and uint8, in single precision between two conversions.
	widened
	// complexes: complex numbers, which only Go has, and no model as inputs or outputs.
	complexes
)

// An operatorRow is what this package knows of an operator.
type operatorRow struct {
	// plan checks the operator, gives its outputs their shapes, and returns what adds it to a subgraph, or nil if it
	// needs no node. It is nil if XNNPACK does not have the operator.
	plan  func(*call)
	takes takes
	// inGo plans what Go computes, where plan does not; nil if it cannot.
	inGo func(*call)
}

// supported has every builtin operator that can run, by its name in the schema. What it does not say of datatypes is
// said by the rules of weights, in types.go.
var supported = map[opcode]operatorRow{
	"ABS": {plan: planOne(xnnpack.Abs), takes: widened, inGo: planMapped(func(a int64) int64 { return max(a, -a) })},
	"ADD": {plan: planBinary(xnnpack.Add, binaryActivation), takes: bytes8,
		inGo: planCombined(operators.Sum, binaryActivation)},
	"ADD_N":             {plan: planAddN, takes: widened},
	"ARG_MAX":           {takes: bytes8, inGo: planArg(operators.ArgMax)},
	"ATAN2":             {takes: widened, inGo: planCombined(operators.ArcTangent, absent)},
	"ARG_MIN":           {takes: bytes8, inGo: planArg(operators.ArgMin)},
	"AVERAGE_POOL_2D":   {plan: planPool(true), takes: widened},
	"BATCH_MATMUL":      {plan: planBatchMatMul, takes: widened},
	"BATCH_TO_SPACE_ND": {plan: planBatchToSpace, takes: bytes8},
	"BROADCAST_ARGS":    {inGo: planBroadcastArgs},
	"BROADCAST_TO":      {plan: planBroadcastTo, takes: bytes8, inGo: planBroadcastTo},
	"BUCKETIZE":         {takes: widened, inGo: planBucketize},
	"CAST":              {takes: complexes, inGo: planCast},
	"CEIL":              {plan: planOne(xnnpack.Ceiling), takes: widened},
	"COMPLEX_ABS":       {takes: complexes, inGo: planFromComplex(cmplx.Abs)},
	"CONCATENATION":     {plan: planConcatenation, takes: bytes8, inGo: planConcatenation},
	"CONV_2D":           {plan: planConv2D, takes: bytes8},
	"CONV_3D":           {plan: planConv3D},
	"COS":               {plan: planOne(xnnpack.Cosine), takes: widened},
	"CUMSUM":            {takes: widened, inGo: planCumulativeSum},
	"DENSIFY":           {plan: planDensify},
	"DEPTH_TO_SPACE":    {plan: planDepthToSpace, takes: bytes8},
	"DEPTHWISE_CONV_2D": {plan: planDepthwiseConv2D, takes: bytes8},
	"DEQUANTIZE":        {plan: planDequantize, takes: bytes8},
	"DIV": {plan: planBinary(xnnpack.Divide, binaryActivation), takes: widened,
		inGo: planCombined(operators.Quotient, binaryActivation)},
	"DYNAMIC_UPDATE_SLICE":         {takes: bytes8, inGo: planDynamicUpdateSlice},
	"ELU":                          {plan: planUnary(xnnpack.Unary{Op: xnnpack.ELU, Alpha: 1}), takes: widened},
	"EMBEDDING_LOOKUP":             {takes: bytes8, inGo: planGather},
	"EQUAL":                        {takes: widened, inGo: planComparison(operators.Equal)},
	"EXP":                          {plan: planOne(xnnpack.Exp), takes: widened},
	"EXPAND_DIMS":                  {plan: planExpandDims, takes: bytes8 | complexes, inGo: planExpandDims},
	"FILL":                         {takes: bytes8, inGo: planFill},
	"FLOOR":                        {plan: planOne(xnnpack.Floor), takes: widened},
	"FLOOR_DIV":                    {takes: widened, inGo: planCombined(operators.FloorQuotient, absent)},
	"FLOOR_MOD":                    {takes: widened, inGo: planCombined(operators.FloorRemainder, absent)},
	"FULLY_CONNECTED":              {plan: planFullyConnected, takes: bytes8},
	"GATHER":                       {plan: planGatherPart, takes: bytes8, inGo: planGather},
	"GATHER_ND":                    {takes: bytes8, inGo: planGatherND},
	"GELU":                         {plan: planGELU, takes: widened},
	"GREATER":                      {takes: widened, inGo: planComparison(operators.Greater)},
	"GREATER_EQUAL":                {takes: widened, inGo: planComparison(operators.GreaterOrEqual)},
	"HARD_SWISH":                   {plan: planOne(xnnpack.HardSwish), takes: widened},
	"IMAG":                         {takes: complexes, inGo: planFromComplex(imagPart)},
	"L2_NORMALIZATION":             {plan: planL2Normalization, takes: widened},
	"LEAKY_RELU":                   {plan: planLeakyReLU, takes: widened},
	"LESS":                         {takes: widened, inGo: planComparison(operators.Less)},
	"LESS_EQUAL":                   {takes: widened, inGo: planComparison(operators.LessOrEqual)},
	"LOG":                          {plan: planOne(xnnpack.Log), takes: widened},
	"LOCAL_RESPONSE_NORMALIZATION": {takes: widened, inGo: planLocalNormalization},
	"LOGICAL_AND":                  {inGo: planComparison(operators.And)},
	"LOGICAL_NOT":                  {inGo: planNot},
	"LOGICAL_OR":                   {inGo: planComparison(operators.Or)},
	"LOGISTIC":                     {plan: planOne(xnnpack.Sigmoid), takes: widened},
	"LOG_SOFTMAX":                  {takes: widened, inGo: planLogSoftmax},
	"MATRIX_DIAG":                  {takes: bytes8, inGo: planMatrixDiag},
	"MATRIX_SET_DIAG":              {takes: bytes8, inGo: planMatrixDiag},
	"MAXIMUM": {plan: planBinary(xnnpack.Maximum, absent), takes: widened,
		inGo: planCombined(operators.Greatest, absent)},
	"MAX_POOL_2D": {plan: planPool(false), takes: bytes8},
	"MEAN":        {plan: planReduce(xnnpack.ReduceMean), takes: widened, inGo: planReduced(operators.Sum)},
	"MINIMUM": {plan: planBinary(xnnpack.Minimum, absent), takes: widened,
		inGo: planCombined(operators.Least, absent)},
	"MIRROR_PAD": {takes: bytes8, inGo: planMirrorPad},
	"MUL": {plan: planBinary(xnnpack.Multiply, binaryActivation), takes: bytes8,
		inGo: planCombined(operators.Product, binaryActivation)},
	"NEG": {plan: planOne(xnnpack.Negate), takes: widened,
		inGo: planMapped(func(a int64) int64 { return -a })},
	"NOT_EQUAL": {takes: widened, inGo: planComparison(operators.NotEqual)},
	"ONE_HOT":   {inGo: planOneHot},
	"PACK":      {plan: planPack, takes: bytes8, inGo: planPack},
	"PAD":       {plan: planPad, takes: bytes8, inGo: planPad},
	"PADV2":     {plan: planPad, takes: widened, inGo: planPad},
	"POW": {plan: planBinary(xnnpack.Pow, absent), takes: widened,
		inGo: planCombined(operators.Power, absent)},
	"PRELU":                   {plan: planPReLU, takes: widened},
	"QUANTIZE":                {plan: (*call).convert, takes: bytes8},
	"RANGE":                   {inGo: planRange},
	"RANK":                    {inGo: planOfShape(rank)},
	"REAL":                    {takes: complexes, inGo: planFromComplex(realPart)},
	"RFFT2D":                  {takes: complexes, inGo: planRealFFT2D},
	"REDUCE_ALL":              {inGo: planReduced(operators.And)},
	"REDUCE_ANY":              {inGo: planReduced(operators.Or)},
	"REDUCE_MAX":              {plan: planReduceMax, takes: bytes8, inGo: planReduced(operators.Greatest)},
	"REDUCE_MIN":              {plan: planReduceMax, takes: widened, inGo: planReduced(operators.Least)},
	"REDUCE_PROD":             {takes: widened, inGo: planReduced(operators.Product)},
	"RELU":                    {plan: planUnary(clamp(0, math.Inf(1))), takes: widened},
	"RELU_0_TO_1":             {plan: planUnary(clamp(0, 1)), takes: widened},
	"RELU6":                   {plan: planUnary(clamp(0, 6)), takes: widened},
	"RELU_N1_TO_1":            {plan: planUnary(clamp(-1, 1)), takes: widened},
	"RESHAPE":                 {plan: planReshape, takes: bytes8 | complexes, inGo: planReshape},
	"RESIZE_BILINEAR":         {plan: planResizeBilinear, takes: bytes8},
	"RESIZE_NEAREST_NEIGHBOR": {plan: planResizeNearest, takes: bytes8, inGo: planResizeNearest},
	"REVERSE_V2":              {takes: bytes8, inGo: planReverse},
	"REVERSE_SEQUENCE":        {takes: bytes8, inGo: planReverseSequence},
	"ROUND":                   {plan: planOne(xnnpack.BankersRounding), takes: widened},
	"RSQRT":                   {plan: planOne(xnnpack.ReciprocalSquareRoot), takes: widened},
	"SCATTER_ND":              {takes: widened, inGo: planScatterND},
	"SEGMENT_SUM":             {inGo: planSegments(operators.Sum, 0, 0)},
	"SELECT":                  {takes: bytes8, inGo: planSelect},
	"SELECT_V2":               {takes: bytes8, inGo: planSelect},
	"SHAPE":                   {takes: bytes8, inGo: planOfShape(dimensions)},
	"SIGN":                    {plan: planOne(xnnpack.Sign), takes: widened, inGo: planMapped(sign)},
	"SIN":                     {plan: planOne(xnnpack.Sine), takes: widened},
	"SLICE":                   {plan: planSlice, takes: bytes8, inGo: planSlice},
	"SOFTMAX":                 {plan: planSoftmax, takes: widened},
	"SPACE_TO_BATCH_ND":       {plan: planSpaceToBatch, takes: bytes8},
	"SPACE_TO_DEPTH":          {plan: planSpaceToDepth, takes: bytes8},
	"SPLIT":                   {plan: planSplit, takes: bytes8, inGo: planSplit},
	"SPLIT_V":                 {plan: planSplitV, takes: bytes8, inGo: planSplitV},
	"SQRT":                    {plan: planOne(xnnpack.SquareRoot), takes: widened},
	"SQUARE": {plan: planOne(xnnpack.Square), takes: widened,
		inGo: planMapped(func(a int64) int64 { return a * a })},
	"SQUARED_DIFFERENCE": {plan: planBinary(xnnpack.SquaredDifference, absent), takes: widened,
		inGo: planCombined(operators.SquaredDifference, absent)},
	"SQUEEZE":       {plan: planSqueeze, takes: bytes8 | complexes, inGo: planSqueeze},
	"STRIDED_SLICE": {plan: planStridedSlice, takes: bytes8, inGo: planStridedSlice},
	"SUB": {plan: planBinary(xnnpack.Subtract, binaryActivation), takes: bytes8,
		inGo: planCombined(operators.Difference, binaryActivation)},
	"NON_MAX_SUPPRESSION_V4": {inGo: planSuppression},
	"NON_MAX_SUPPRESSION_V5": {inGo: planSuppression},
	"SUM":                    {plan: planReduce(xnnpack.ReduceSum), takes: widened, inGo: planReduced(operators.Sum)},
	"TANH":                   {plan: planOne(xnnpack.Tanh), takes: widened},
	"TILE":                   {plan: planTile, takes: bytes8, inGo: planTile},
	"TOPK_V2":                {inGo: planTopK},
	"TRANSPOSE":              {plan: planTranspose, takes: bytes8, inGo: planTranspose},
	"TRANSPOSE_CONV":         {plan: planTransposeConv, takes: bytes8},
	"UNPACK":                 {plan: planUnpack, takes: bytes8, inGo: planUnpack},
	"UNSORTED_SEGMENT_MAX":   {inGo: planSegments(operators.Greatest, -math.MaxFloat32, math.MinInt32)},
	"UNSORTED_SEGMENT_MIN":   {inGo: planSegments(operators.Least, math.MaxFloat32, math.MaxInt32)},
	"UNSORTED_SEGMENT_PROD":  {inGo: planSegments(operators.Product, 1, 1)},
	"UNSORTED_SEGMENT_SUM":   {inGo: planSegments(operators.Sum, 0, 0)},
	"ZEROS_LIKE":             {inGo: planOfShape(zeros)},
}

// customOperators has the operators that models name themselves.
var customOperators = map[string]operatorRow{
	"Convolution2DTransposeBias": {plan: planTransposeConvBias},
}
