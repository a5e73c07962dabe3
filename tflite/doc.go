// Package tflite reads TensorFlow Lite models (.tflite files) into XNNPACK subgraphs.
//
//	m, err := tflite.Load("model.tflite", "model.xpwc", nil)    // an inference.Runner
//	outputs, err := m.Run(input)                                // a []float32, say
//	err = m.Close()
//
// is all that most programs need, see [xpwc/inference]. A host that gives XNNPACK memory, a thread pool or a workspace
// of its own does the same in steps:
//
//	m, err := tflite.Open("model.tflite")               // maps the file, checks all of it
//	session, err := cache.NewSession(m.DataMap())       // or m.NewLoader(), without a cache
//	subgraph, err := m.Subgraph(session)
//	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
//	err = subgraph.Delete()
//	err = session.Finalize()                            // weights that packing consumed leave the memory
//	… runtime.Reshape(), runtime.Setup(…) with the IDs of m.Inputs() and m.Outputs(), runtime.Invoke()
//	err = runtime.Delete()
//	err = session.Close()
//	err = m.Close()
//
// A [Model] is a read-only mapping. XNNPACK reads its constants where they lie in the mapping. Those that the file
// has in half precision or quantized (DEQUANTIZE) or sparse (DENSIFY) are computed when their content is asked for.
// With a cache that has the packed weights, only those that [Model.Subgraph] loads eagerly are computed.
//
// # What is supported
//
// In single precision: ABS, ADD, AVERAGE_POOL_2D, BATCH_MATMUL, BATCH_TO_SPACE_ND, CAST, CEIL, CONCATENATION, CONV_2D,
// COS, DENSIFY, DEPTH_TO_SPACE, DEPTHWISE_CONV_2D, DEQUANTIZE, DIV, ELU, EMBEDDING_LOOKUP, EQUAL, EXP, EXPAND_DIMS,
// FILL, FLOOR, FULLY_CONNECTED, GATHER, GELU, GREATER, GREATER_EQUAL, HARD_SWISH, LEAKY_RELU, LESS, LESS_EQUAL, LOG,
// LOGISTIC, MAX_POOL_2D, MAXIMUM, MEAN, MINIMUM, MUL, NEG, NOT_EQUAL, PACK, PAD, PADV2, PRELU, QUANTIZE, REDUCE_MAX,
// RELU, RELU_0_TO_1, RELU_N1_TO_1, RELU6, RESHAPE, RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR (to a multiple of the
// size), ROUND, RSQRT, SELECT, SELECT_V2, SIN, SLICE, SOFTMAX, SPACE_TO_BATCH_ND, SPACE_TO_DEPTH, SPLIT, SPLIT_V,
// SQRT, SQUARE, SQUARED_DIFFERENCE, SQUEEZE, STRIDED_SLICE (by 1), SUB, SUM, TANH, TILE, TRANSPOSE, TRANSPOSE_CONV,
// UNPACK, and MediaPipe's custom operator Convolution2DTransposeBias. Weights are constant. Activations NONE, RELU,
// RELU_N1_TO_1 and RELU6 can be fused. Anything else is an error that names each operator that cannot run, once for
// each reason, with its index and how often it is there.
//
//   - Dynamic range: weights of int8 for an input in single precision. CONV_2D in one group and FULLY_CONNECTED
//     quantize the input at inference, row by row or image by image, if the weights have zero points of 0. Otherwise
//     weights are dequantized.
//   - Quantized values of int8 and uint8, with weights of one scale or one for each channel. Convolutions,
//     FULLY_CONNECTED, ADD, MUL, SUB and what moves elements compute with them as they are. What computes each element
//     of others, and most of the rest, computes in single precision between two conversions, as do ADD, MUL and SUB
//     where the scales are too far apart for XNNPACK.
//   - Integers and booleans that depend on the inputs, such as tokens, are computed in single precision, which has all
//     integers below 2^24: comparisons, SELECT, CAST, ADD, MUL, SUB, and the rows that GATHER takes from a constant
//     table. No output is one.
//   - What follows from shapes and constants alone is computed when the model is opened: SHAPE, REDUCE_PROD, and
//     integers in ADD, CAST, CONCATENATION, FILL, GATHER, MAXIMUM, MINIMUM, MUL, PACK, RESHAPE, SLICE, STRIDED_SLICE,
//     SUB and others. The shapes that operators are given may be computed so.
//
// Each operator computes what TensorFlow Lite's reference kernel does. GATHER of a row that the table does not have
// gives zeros. Shapes follow from those of the model's inputs; what the file says of intermediate tensors' shapes is
// ignored, as TensorFlow Lite ignores it. No shape is dynamic.
//
// # Untrusted files
//
// All that a file says is checked before it is used: no file makes this package or XNNPACK read outside the mapping.
// A file may however ask for much memory and time, as any model may; and a file that is cut off while it is mapped
// ends the process.
package tflite
