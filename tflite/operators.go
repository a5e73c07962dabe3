package tflite

import (
	"math"
	"math/cmplx"

	"xpwc/internal/compute"
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
	plan  func(*call) func(*emitter)
	takes takes
	// inGo plans what Go computes, where plan does not; nil if it cannot.
	inGo func(*call) func(*emitter)
}

// operators has every builtin operator that can run. What it does not say of datatypes is said by the rules of weights,
// in types.go.
var operators = map[opcode]operatorRow{
	opAbs: {plan: planUnary(xnnpack.Unary{Op: xnnpack.Abs}), takes: widened,
		inGo: planMapped(func(a int64) int64 { return max(a, -a) })},
	opAdd: {plan: planBinary(xnnpack.Add, binaryActivation), takes: bytes8,
		inGo: planCombined(compute.Sum, binaryActivation)},
	opAddN:            {plan: planAddN, takes: widened},
	opArgMax:          {takes: bytes8, inGo: planArg(compute.ArgMax)},
	opArcTangent2:     {takes: widened, inGo: planCombined(compute.ArcTangent, absent)},
	opArgMin:          {takes: bytes8, inGo: planArg(compute.ArgMin)},
	opAveragePool2D:   {plan: planPool(true), takes: widened},
	opBatchMatMul:     {plan: planBatchMatMul, takes: widened},
	opBatchToSpaceND:  {plan: planBatchToSpace, takes: bytes8},
	opBroadcastArgs:   {inGo: planBroadcastArgs},
	opBroadcastTo:     {plan: planBroadcastTo, takes: bytes8, inGo: planBroadcastTo},
	opBucketize:       {takes: widened, inGo: planBucketize},
	opCast:            {takes: complexes, inGo: planCast},
	opCeil:            {plan: planUnary(xnnpack.Unary{Op: xnnpack.Ceiling}), takes: widened},
	opComplexAbs:      {takes: complexes, inGo: planFromComplex(cmplx.Abs)},
	opConcatenation:   {plan: planConcatenation, takes: bytes8, inGo: planConcatenation},
	opConv2D:          {plan: planConv2D, takes: bytes8},
	opConv3D:          {plan: planConv3D},
	opCos:             {plan: planUnary(xnnpack.Unary{Op: xnnpack.Cosine}), takes: widened},
	opCumulativeSum:   {takes: widened, inGo: planCumulativeSum},
	opDensify:         {plan: planDensify},
	opDepthToSpace:    {plan: planDepthToSpace, takes: bytes8},
	opDepthwiseConv2D: {plan: planDepthwiseConv2D, takes: bytes8},
	opDequantize:      {plan: planDequantize, takes: bytes8},
	opDiv: {plan: planBinary(xnnpack.Divide, binaryActivation), takes: widened,
		inGo: planCombined(compute.Quotient, binaryActivation)},
	opDynamicUpdateSlice: {takes: bytes8, inGo: planDynamicUpdateSlice},
	opELU:                {plan: planUnary(xnnpack.Unary{Op: xnnpack.ELU, Alpha: 1}), takes: widened},
	opEmbeddingLookup:    {takes: bytes8, inGo: planGather},
	opEqual:              {takes: widened, inGo: planComparison(compute.Equal)},
	opExp:                {plan: planUnary(xnnpack.Unary{Op: xnnpack.Exp}), takes: widened},
	opExpandDims:         {plan: planExpandDims, takes: bytes8 | complexes, inGo: planExpandDims},
	opFill:               {takes: bytes8, inGo: planFill},
	opFloor:              {plan: planUnary(xnnpack.Unary{Op: xnnpack.Floor}), takes: widened},
	opFloorDiv:           {takes: widened, inGo: planCombined(compute.FloorQuotient, absent)},
	opFloorMod:           {takes: widened, inGo: planCombined(compute.FloorRemainder, absent)},
	opFullyConnected:     {plan: planFullyConnected, takes: bytes8},
	opGather:             {plan: planGatherPart, takes: bytes8, inGo: planGather},
	opGatherND:           {takes: bytes8, inGo: planGatherND},
	opGELU:               {plan: planGELU, takes: widened},
	opGreater:            {takes: widened, inGo: planComparison(compute.Greater)},
	opGreaterEqual:       {takes: widened, inGo: planComparison(compute.GreaterOrEqual)},
	opHardSwish:          {plan: planUnary(xnnpack.Unary{Op: xnnpack.HardSwish}), takes: widened},
	opImag:               {takes: complexes, inGo: planFromComplex(imagPart)},
	opL2Normalization:    {plan: planL2Normalization, takes: widened},
	opLeakyReLU:          {plan: planLeakyReLU, takes: widened},
	opLess:               {takes: widened, inGo: planComparison(compute.Less)},
	opLessEqual:          {takes: widened, inGo: planComparison(compute.LessOrEqual)},
	opLog:                {plan: planUnary(xnnpack.Unary{Op: xnnpack.Log}), takes: widened},
	opLocalNormalization: {takes: widened, inGo: planLocalNormalization},
	opLogicalAnd:         {inGo: planLogical(func(a, b bool) bool { return a && b })},
	opLogicalNot:         {inGo: planNot},
	opLogicalOr:          {inGo: planLogical(func(a, b bool) bool { return a || b })},
	opLogistic:           {plan: planUnary(xnnpack.Unary{Op: xnnpack.Sigmoid}), takes: widened},
	opLogSoftmax:         {takes: widened, inGo: planLogSoftmax},
	opMatrixDiag:         {takes: bytes8, inGo: planMatrixDiag},
	opMatrixSetDiag:      {takes: bytes8, inGo: planMatrixDiag},
	opMaximum: {plan: planBinary(xnnpack.Maximum, absent), takes: widened,
		inGo: planCombined(compute.Greatest, absent)},
	opMaxPool2D: {plan: planPool(false), takes: bytes8},
	opMean:      {plan: planReduce(xnnpack.ReduceMean), takes: widened, inGo: planReduced(integerMean)},
	opMinimum: {plan: planBinary(xnnpack.Minimum, absent), takes: widened,
		inGo: planCombined(compute.Least, absent)},
	opMirrorPad: {takes: bytes8, inGo: planMirrorPad},
	opMul: {plan: planBinary(xnnpack.Multiply, binaryActivation), takes: bytes8,
		inGo: planCombined(compute.Product, binaryActivation)},
	opNeg: {plan: planUnary(xnnpack.Unary{Op: xnnpack.Negate}), takes: widened,
		inGo: planMapped(func(a int64) int64 { return -a })},
	opNotEqual: {takes: widened, inGo: planComparison(compute.NotEqual)},
	opOneHot:   {inGo: planOneHot},
	opPack:     {plan: planPack, takes: bytes8, inGo: planPack},
	opPad:      {plan: planPad, takes: bytes8, inGo: planPad},
	opPadV2:    {plan: planPad, takes: widened, inGo: planPad},
	opPow: {plan: planBinary(xnnpack.Pow, absent), takes: widened,
		inGo: planCombined(compute.Power, absent)},
	opPReLU:           {plan: planPReLU, takes: widened},
	opQuantize:        {plan: planQuantize, takes: bytes8},
	opRange:           {inGo: planRange},
	opRank:            {inGo: planOfShape(rank)},
	opReal:            {takes: complexes, inGo: planFromComplex(realPart)},
	opRealFFT2D:       {takes: complexes, inGo: planRealFFT2D},
	opReduceAll:       {inGo: planReduced(compute.All)},
	opReduceAny:       {inGo: planReduced(compute.Any)},
	opReduceMax:       {plan: planReduceMax, takes: bytes8, inGo: planReduced(reduced(compute.Greatest))},
	opReduceMin:       {plan: planReduceMax, takes: widened, inGo: planReduced(reduced(compute.Least))},
	opReduceProd:      {takes: widened, inGo: planReduced(reduced(compute.Product))},
	opReLU:            {plan: planUnary(clamp(0, math.Inf(1))), takes: widened},
	opReLU0To1:        {plan: planUnary(clamp(0, 1)), takes: widened},
	opReLU6:           {plan: planUnary(clamp(0, 6)), takes: widened},
	opReLUN1To1:       {plan: planUnary(clamp(-1, 1)), takes: widened},
	opReshape:         {plan: planReshape, takes: bytes8 | complexes, inGo: planReshape},
	opResizeBilinear:  {plan: planResizeBilinear, takes: bytes8},
	opResizeNearest:   {plan: planResizeNearest, takes: bytes8, inGo: planResizeNearest},
	opReverse:         {takes: bytes8, inGo: planReverse},
	opReverseSequence: {takes: bytes8, inGo: planReverseSequence},
	opRound:           {plan: planUnary(xnnpack.Unary{Op: xnnpack.BankersRounding}), takes: widened},
	opRsqrt:           {plan: planUnary(xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot}), takes: widened},
	opScatterND:       {takes: widened, inGo: planScatterND},
	opSegmentSum:      {inGo: planSegments(compute.Sum, 0, 0)},
	opSelect:          {takes: bytes8, inGo: planSelect},
	opSelectV2:        {takes: bytes8, inGo: planSelect},
	opShape:           {takes: bytes8, inGo: planOfShape(dimensions)},
	opSign:            {plan: planUnary(xnnpack.Unary{Op: xnnpack.Sign}), takes: widened, inGo: planMapped(sign)},
	opSin:             {plan: planUnary(xnnpack.Unary{Op: xnnpack.Sine}), takes: widened},
	opSlice:           {plan: planSlice, takes: bytes8, inGo: planSlice},
	opSoftmax:         {plan: planSoftmax, takes: widened},
	opSpaceToBatchND:  {plan: planSpaceToBatch, takes: bytes8},
	opSpaceToDepth:    {plan: planSpaceToDepth, takes: bytes8},
	opSplit:           {plan: planSplit, takes: bytes8, inGo: planSplit},
	opSplitV:          {plan: planSplitV, takes: bytes8, inGo: planSplitV},
	opSqrt:            {plan: planUnary(xnnpack.Unary{Op: xnnpack.SquareRoot}), takes: widened},
	opSquare: {plan: planUnary(xnnpack.Unary{Op: xnnpack.Square}), takes: widened,
		inGo: planMapped(func(a int64) int64 { return a * a })},
	opSquaredDifference: {plan: planBinary(xnnpack.SquaredDifference, absent), takes: widened,
		inGo: planCombined(compute.SquaredDifference, absent)},
	opSqueeze:      {plan: planSqueeze, takes: bytes8 | complexes, inGo: planSqueeze},
	opStridedSlice: {plan: planStridedSlice, takes: bytes8, inGo: planStridedSlice},
	opSub: {plan: planBinary(xnnpack.Subtract, binaryActivation), takes: bytes8,
		inGo: planCombined(compute.Difference, binaryActivation)},
	opSuppression4:  {inGo: planSuppression},
	opSuppression5:  {inGo: planSuppression},
	opSum:           {plan: planReduce(xnnpack.ReduceSum), takes: widened, inGo: planReduced(reduced(compute.Sum))},
	opTanh:          {plan: planUnary(xnnpack.Unary{Op: xnnpack.Tanh}), takes: widened},
	opTile:          {plan: planTile, takes: bytes8, inGo: planTile},
	opTopK:          {inGo: planTopK},
	opTranspose:     {plan: planTranspose, takes: bytes8, inGo: planTranspose},
	opTransposeConv: {plan: planTransposeConv, takes: bytes8},
	opUnpack:        {plan: planUnpack, takes: bytes8, inGo: planUnpack},
	opSegmentsMax:   {inGo: planSegments(compute.Greatest, -math.MaxFloat32, math.MinInt32)},
	opSegmentsMin:   {inGo: planSegments(compute.Least, math.MaxFloat32, math.MaxInt32)},
	opSegmentsProd:  {inGo: planSegments(compute.Product, 1, 1)},
	opSegmentsSum:   {inGo: planSegments(compute.Sum, 0, 0)},
	opZerosLike:     {inGo: planOfShape(zeros)},
}

// customOperators has the operators that models name themselves.
var customOperators = map[string]operatorRow{
	"Convolution2DTransposeBias": {plan: planTransposeConvBias},
}
