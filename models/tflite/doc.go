// Package tflite reads TensorFlow Lite models (.tflite files) into XNNPACK subgraphs.
//
//	m, err := tflite.Load("model.tflite", "model.xpwc", nil)
//	outputs, err := m.Run(ctx, input) // a []float32, for instance
//	err = m.Close()
//
// is all that most programs need, see [xpwc/models/inference]. A host that gives XNNPACK memory, a thread pool or a
// workspace of its own does the same in steps:
//
//	m, err := tflite.Open("model.tflite", nil)    // maps and checks the file
//	session, err := cache.NewSession(m.DataMap()) // or models.NewMemory, without a cache
//	subgraph, err := m.Subgraph(session)
//	options := &xnnpack.RuntimeOptions{WeightsCache: session}
//	runtime, err := xnnpack.NewRuntime(subgraph, options)
//	err = subgraph.Delete()
//	err = session.Finalize() // frees weights that packing consumed
//	… runtime.Reshape(), runtime.Setup(…) with the IDs of inputs and outputs,
//	… runtime.Invoke()
//	err = runtime.Delete()
//	err = session.Close()
//	err = m.Close()
//
// A [Model] is a read-only mapping. XNNPACK reads its constants where they lie in the mapping. Those that the file
// has in half precision or quantized (DEQUANTIZE) or sparse (DENSIFY) are computed when their content is asked for.
// With a cache that has the packed weights, only constants that [Model.Subgraph] loads eagerly are computed.
//
// # What is supported
//
// XNNPACK computes ABS, ADD, ADD_N, AVERAGE_POOL_2D, BATCH_MATMUL, BATCH_TO_SPACE_ND, BROADCAST_TO, CEIL,
// CONCATENATION, CONV_2D, CONV_3D, CONV_3D_TRANSPOSE, COS, DENSIFY, DEPTH_TO_SPACE, DEPTHWISE_CONV_2D, DEQUANTIZE,
// DIV, ELU, EXP, EXPAND_DIMS, FLOOR, FULLY_CONNECTED, GELU, HARD_SWISH, L2_NORMALIZATION, LEAKY_RELU, LOG, LOGISTIC,
// MAX_POOL_2D, MAXIMUM, MEAN, MINIMUM, MUL, NEG, PACK, PAD, PADV2, POW, PRELU, QUANTIZE, REDUCE_MAX, REDUCE_MIN,
// RELU, RELU_0_TO_1, RELU_N1_TO_1, RELU6, RESHAPE, RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR, ROUND, RSQRT, SIGN,
// SIN, SLICE, SOFTMAX, SPACE_TO_BATCH_ND, SPACE_TO_DEPTH, SPLIT, SPLIT_V, SQRT, SQUARE, SQUARED_DIFFERENCE, SQUEEZE,
// STABLEHLO_ADD, STABLEHLO_MAXIMUM, STABLEHLO_MINIMUM, STABLEHLO_MULTIPLY, STRIDED_SLICE, SUB, SUM, TANH, TILE,
// TRANSPOSE, TRANSPOSE_CONV, UNPACK, and MediaPipe's custom operator Convolution2DTransposeBias. Weights are
// constant, except that FULLY_CONNECTED's may be computed. Activations NONE, RELU, RELU_N1_TO_1 and RELU6 can be
// fused.
//
// Go computes what XNNPACK does not have, between subgraphs: ARG_MAX, ARG_MIN, ATAN2, BROADCAST_ARGS, BUCKETIZE,
// CAST, COMPLEX_ABS, CUMSUM, DYNAMIC_UPDATE_SLICE, EMBEDDING_LOOKUP, EQUAL, FILL, FLOOR_DIV, FLOOR_MOD, GATHER,
// GATHER_ND, GREATER, GREATER_EQUAL, IMAG, LESS, LESS_EQUAL, LOCAL_RESPONSE_NORMALIZATION, LOG_SOFTMAX, LOGICAL_AND,
// LOGICAL_NOT, LOGICAL_OR, MATRIX_DIAG, MATRIX_SET_DIAG, MIRROR_PAD, NON_MAX_SUPPRESSION_V4 and _V5, NOT_EQUAL,
// ONE_HOT, RANGE, RANK, REAL, REDUCE_ALL, REDUCE_ANY, REDUCE_PROD, REVERSE_SEQUENCE, REVERSE_V2, RFFT2D of powers of
// 2, SCATTER_ND, SEGMENT_SUM of constant indices, SELECT, SELECT_V2, SHAPE, STABLEHLO_GATHER, STABLEHLO_PAD,
// STABLEHLO_SCATTER, TOPK_V2, UNSORTED_SEGMENT_MAX, UNSORTED_SEGMENT_MIN, UNSORTED_SEGMENT_PROD,
// UNSORTED_SEGMENT_SUM, ZEROS_LIKE, the custom operator TFLite_Detection_PostProcess, and integers and booleans in
// operators that move, adds or compares. A model with any of these has no subgraph of all of it, see [Model.Stages].
//
// WHILE, IF and STABLEHLO_COMPOSITE call other subgraphs. A composite becomes the operators of its body. A loop that
// counts, as that of a recurrent layer, becomes as many steps as it has rounds. Of an IF whose condition is not known,
// each run computes the subgraph that it chooses. What has no elements can only be joined.
// UNIDIRECTIONAL_SEQUENCE_LSTM becomes the operators that it consists of, for each step. Its states are kept from one
// inference to the next, as TensorFlow Lite keeps them, until [xpwc/models/inference.Runner.Reset].
//
// Variables (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE) begin with the constants that CALL_ONCE gives them. One that
// the model changes is kept in the same way, and any other is a constant.
//
// Anything else is an error that names each operator that cannot run, once for each reason, with its index and how
// often it is there.
//
//   - Dynamic range: weights of int8, int4 or int2 for an input in single precision. CONV_2D in one group and
//     FULLY_CONNECTED quantize the input at inference, row by row or image by image, if the weights have zero points
//     of 0. FULLY_CONNECTED takes int4 as it is, also with a scale for each block of a multiple of 32. Otherwise
//     weights are dequantized.
//   - Quantized values of int8 and uint8, with weights of one scale or one for each channel. Convolutions,
//     FULLY_CONNECTED, ADD, MUL, SUB and what moves elements compute with them as they are. What computes each element
//     of others, and most of the rest, computes in single precision between two conversions, as do these where the
//     scales are too far apart for XNNPACK, except operators that move elements.
//   - Values of int16 with a scale, for weights of int8. Single precision is computed with, and each operator limits
//     it to the range of int16. CAST does not take them.
//   - Integers and booleans are inputs and outputs, too, as the file has them.
//   - What follows from shapes and constants alone is computed when the model is opened. The shapes that operators are
//     given may be computed so.
//
// Each operator computes what TensorFlow Lite's reference kernel does. An index that is out of range, such as a token
// that is not in the vocabulary, is an error of the inference. Shapes follow from the shapes of the model's inputs;
// what the file has as shapes of intermediate tensors is ignored, as TensorFlow Lite ignores it. An open model has one
// shape of each input: [Options.Shapes] gives another batch, for instance, and [Options.Signature] another of the
// file's signatures.
//
// # Untrusted files
//
// Everything in a file is checked before it is used: no file makes this package or XNNPACK read outside the mapping.
// A file may however ask for much memory and time, as any model may; and a file that is cut off while it is mapped
// ends the process.
package tflite
