package tflite

import (
	"math"

	"xpwc/xnnpack"
)

// takes says which values an operator computes with beside those in single precision.
type takes uint8

const (
	// bytes8: int8 and uint8, as XNNPACK's kernels for them do.
	bytes8 takes = 1 << iota
	// widened: int8 and uint8, in single precision between two conversions.
	widened
	// whole: integers and booleans, in single precision, which has all integers below 2^24.
	whole
)

// An operatorRow is what this package knows of an operator.
type operatorRow struct {
	// plan checks the operator, gives its outputs their shapes, and returns what adds it to a subgraph, or nil if it
	// needs no node.
	plan  func(*call) func(*emitter) error
	takes takes
	// fold computes it while the model is opened, if all that it reads is known then; nil if it is never so.
	fold func(*call) (numbers, bool)
}

// operators has every builtin operator that can run. What it does not say of datatypes is said by the rules of weights,
// in types.go.
var operators = map[opcode]operatorRow{
	opAbs:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.Abs}), takes: widened | whole},
	opAdd:               {planBinary(xnnpack.Add, binaryActivation), bytes8 | whole, foldBinary},
	opAveragePool2D:     {plan: planPool(true), takes: widened},
	opBatchMatMul:       {plan: planBatchMatMul, takes: widened},
	opBatchToSpaceND:    {plan: planBatchToSpace, takes: bytes8},
	opCast:              {plan: planCast, takes: whole, fold: foldSame},
	opCeil:              {plan: planUnary(xnnpack.Unary{Op: xnnpack.Ceiling}), takes: widened},
	opConcatenation:     {planConcatenation, bytes8 | whole, foldJoin},
	opConv2D:            {plan: planConv2D, takes: bytes8},
	opCos:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.Cosine}), takes: widened},
	opDensify:           {plan: planDensify},
	opDepthToSpace:      {plan: planDepthToSpace, takes: bytes8},
	opDepthwiseConv2D:   {plan: planDepthwiseConv2D, takes: bytes8},
	opDequantize:        {plan: planDequantize, takes: bytes8},
	opDiv:               {plan: planBinary(xnnpack.Divide, binaryActivation), takes: widened},
	opELU:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.ELU, Alpha: 1}), takes: widened},
	opEmbeddingLookup:   {plan: planEmbeddingLookup, takes: widened | whole},
	opEqual:             {plan: planComparison, takes: whole},
	opExp:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.Exp}), takes: widened},
	opExpandDims:        {planExpandDims, bytes8 | whole, foldFlat},
	opFill:              {plan: planFill, takes: bytes8 | whole, fold: foldFill},
	opFloor:             {plan: planUnary(xnnpack.Unary{Op: xnnpack.Floor}), takes: widened},
	opFullyConnected:    {plan: planFullyConnected, takes: bytes8},
	opGELU:              {plan: planGELU, takes: widened},
	opGather:            {planGather, widened | whole, foldGather},
	opGreater:           {plan: planComparison, takes: whole},
	opGreaterEqual:      {plan: planComparison, takes: whole},
	opHardSwish:         {plan: planUnary(xnnpack.Unary{Op: xnnpack.HardSwish}), takes: widened},
	opLeakyReLU:         {plan: planLeakyReLU, takes: widened},
	opLess:              {plan: planComparison, takes: whole},
	opLessEqual:         {plan: planComparison, takes: whole},
	opLog:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.Log}), takes: widened},
	opLogistic:          {plan: planUnary(xnnpack.Unary{Op: xnnpack.Sigmoid}), takes: widened},
	opMaxPool2D:         {plan: planPool(false), takes: bytes8},
	opMaximum:           {planBinary(xnnpack.Maximum, absent), widened | whole, foldBinary},
	opMean:              {plan: planReduce(xnnpack.ReduceMean), takes: widened},
	opMinimum:           {planBinary(xnnpack.Minimum, absent), widened | whole, foldBinary},
	opMul:               {planBinary(xnnpack.Multiply, binaryActivation), bytes8 | whole, foldBinary},
	opNeg:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.Negate}), takes: widened | whole},
	opNotEqual:          {plan: planComparison, takes: whole},
	opPReLU:             {plan: planPReLU, takes: widened},
	opPack:              {planPack, bytes8 | whole, foldPack},
	opPad:               {plan: planPad, takes: bytes8},
	opPadV2:             {plan: planPad, takes: widened},
	opQuantize:          {plan: planQuantize, takes: bytes8},
	opReLU:              {plan: planUnary(clamp(0, math.Inf(1))), takes: widened},
	opReLU6:             {plan: planUnary(clamp(0, 6)), takes: widened},
	opReLUN1To1:         {plan: planUnary(clamp(-1, 1)), takes: widened},
	opReLU0To1:          {plan: planUnary(clamp(0, 1)), takes: widened},
	opReduceMax:         {plan: planReduceMax, takes: bytes8, fold: foldReduce},
	opReduceProd:        {plan: planNothingButFolded, fold: foldReduce},
	opReshape:           {planReshape, bytes8 | whole, foldReshape},
	opResizeBilinear:    {plan: planResizeBilinear, takes: bytes8},
	opResizeNearest:     {plan: planResizeNearest, takes: bytes8},
	opRound:             {plan: planUnary(xnnpack.Unary{Op: xnnpack.BankersRounding}), takes: widened},
	opRsqrt:             {plan: planUnary(xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot}), takes: widened},
	opSelect:            {plan: planSelect, takes: whole},
	opSelectV2:          {plan: planSelect, takes: whole},
	opShape:             {plan: planNothingButFolded, takes: bytes8 | whole, fold: foldShape},
	opSin:               {plan: planUnary(xnnpack.Unary{Op: xnnpack.Sine}), takes: widened},
	opSlice:             {planSlice, bytes8 | whole, foldSlice},
	opSoftmax:           {plan: planSoftmax, takes: widened},
	opSpaceToBatchND:    {plan: planSpaceToBatch, takes: bytes8},
	opSpaceToDepth:      {plan: planSpaceToDepth, takes: bytes8},
	opSplit:             {plan: planSplit, takes: bytes8 | whole},
	opSplitV:            {plan: planSplitV, takes: bytes8 | whole},
	opSqrt:              {plan: planUnary(xnnpack.Unary{Op: xnnpack.SquareRoot}), takes: widened},
	opSquare:            {plan: planUnary(xnnpack.Unary{Op: xnnpack.Square}), takes: widened},
	opSquaredDifference: {plan: planBinary(xnnpack.SquaredDifference, absent), takes: widened},
	opSqueeze:           {planSqueeze, bytes8 | whole, foldSqueeze},
	opStridedSlice:      {planStridedSlice, bytes8 | whole, foldSlice},
	opSub:               {planBinary(xnnpack.Subtract, binaryActivation), bytes8 | whole, foldBinary},
	opSum:               {plan: planReduce(xnnpack.ReduceSum), takes: widened, fold: foldReduce},
	opTanh:              {plan: planUnary(xnnpack.Unary{Op: xnnpack.Tanh}), takes: widened},
	opTile:              {plan: planTile, takes: bytes8 | whole},
	opTranspose:         {plan: planTranspose, takes: bytes8 | whole},
	opTransposeConv:     {plan: planTransposeConv, takes: bytes8},
	opUnpack:            {plan: planUnpack, takes: bytes8 | whole},
}

// customOperators has the operators that models name themselves.
var customOperators = map[string]operatorRow{
	"Convolution2DTransposeBias": {plan: planTransposeConvBias},
}
