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
// has in half precision (DEQUANTIZE) or sparse (DENSIFY) are computed when their content is asked for. With a cache
// that has the packed weights, only those that [Model.Subgraph] loads eagerly are computed.
//
// # What is supported
//
// Values are in single precision: ABS, ADD, AVERAGE_POOL_2D, CONCATENATION, CONV_2D, DENSIFY, DEPTH_TO_SPACE,
// DEPTHWISE_CONV_2D, DEQUANTIZE, DIV, FULLY_CONNECTED, HARD_SWISH, LEAKY_RELU, LOGISTIC, MAX_POOL_2D, MAXIMUM, MEAN,
// MINIMUM, MUL, PAD, PADV2, PRELU, QUANTIZE, RELU, RELU_N1_TO_1, RELU6, RESHAPE, RESIZE_BILINEAR, SOFTMAX, SUB, TANH,
// TRANSPOSE_CONV, and MediaPipe's custom operator Convolution2DTransposeBias. ADD, CONV_2D, DEPTHWISE_CONV_2D,
// DEQUANTIZE, FULLY_CONNECTED, MUL, QUANTIZE, RESHAPE and SUB also take quantized values of int8 (weights with one
// scale or one for each channel) and uint8. Weights are constant. Activations NONE, RELU, RELU_N1_TO_1 and RELU6 can
// be fused. Anything else is an error that names the operator and its index.
//
// Each operator computes what TensorFlow Lite's reference kernel does. Shapes follow from those of the model's
// inputs; what the file says of intermediate tensors' shapes is ignored, as TensorFlow Lite ignores it. No shape is
// dynamic.
//
// # Untrusted files
//
// All that a file says is checked before it is used: no file makes this package or XNNPACK read outside the mapping.
// A file may however ask for much memory and time, as any model may; and a file that is cut off while it is mapped
// ends the process.
package tflite
