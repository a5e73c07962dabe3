// Package described makes XNNPACK subgraphs of tensors and a description of how they are used: which operator and
// datatype each is packed for. A file of tensors alone does not show that. It is a safetensors file, the index of a
// sharded one, or a .ptd of ExecuTorch ([OpenTensors]).
//
//	m, err := described.Open("model.safetensors", "model.safetensors.json")
//	session, err := cache.NewSession(m.DataMap())
//	subgraph, err := m.Subgraph(session)
//	options := &xnnpack.RuntimeOptions{WeightsCache: session}
//	runtime, err := xnnpack.NewRuntime(subgraph, options)
//
// The subgraph has the weight-bearing operators and nothing between them: each computes its own output from its own
// input. That is enough to pack ahead of time for a program that builds its own graph, and to compare what packed
// weights compute.
//
// # The description
//
// It is a JSON array with an object for each operator:
//
//	[
//	  {"op": "fully_connected", "datatype": "f32", "weights": "embed.weight", "bias": "embed.bias"},
//	  {"op": "fully_connected", "datatype": "qd8_f32_qc8w", "weights": "layers.0.q.weight",
//	   "scales": "layers.0.q.scales"},
//	  {"op": "fully_connected", "datatype": "qd8_f32_qb4w", "weights": "layers.0.k.weight",
//	   "scales": "layers.0.k.scales", "zero_point": 8, "block_size": 32},
//	  {"op": "convolution_2d", "datatype": "f32", "weights": "stem.weight", "bias": "stem.bias",
//	   "stride": [2, 2], "same_padding": true}
//	]
//
// [Describe], and xpwc pack --describe, write one to start from. In it an op of "none" leaves a tensor out, "?" is to
// be decided, "assumed" lists the members that were not known, and "note" is for people.
//
// Members that an operator or datatype does not use, unknown members, and members that come twice are refused.
// [Operator] has them all. These datatypes (XNNPACK's own names: the input's type, the output's, the weights') take
// these tensors, whose types go by the names that safetensors files have for them:
//
//	datatype       weights                scales         bias   operators
//	f32            F32                                   F32    all
//	f16            F16                                   F16    fully_connected
//	f32_qc8w       I8                     F32 [out]      F32    fully_connected
//	f32_qc4w       U8, two to a byte      F32 [out]      F32    fully_connected
//	qd8_f32_qc8w   I8                     F32 [out]      F32    fully_connected, convolution_2d, deconvolution_2d
//	qd8_f32_qc4w   U8, two to a byte      F32 [out]      F32    fully_connected
//	qd8_f32_qb4w   U8, two to a byte      BF16 [blocks]  F32    fully_connected
//	qs8_qc8w       I8                     F32 [out]      I32    all
//
// qd8 is a float32 input that is quantised row by row (in images: each whole) at inference. Of two 4-bit numbers in a
// byte the first is the lower half; the tensor's last dimension counts bytes. Shapes of weights are as in
// package xnnpack:
//
//	fully_connected            [out, in], or [in, out] with transposed
//	convolution_2d             [out, height, width, in/groups]
//	depthwise_convolution_2d   [1, height, width, out]
//	deconvolution_2d           [out, height, width, in/groups]
//
// # What a program must do to find what was packed
//
// It loads the tensors from a data map under the same names, with the same contents, and passes with [xpwc.PackedAs]
// how the weights are packed, as the node's own method has it ([xnnpack.FullyConnected.Packing] and its siblings):
// groups, stride, dilation, whether images are padded, and the datatypes are part of that. Subgraph does just that.
//
// # Untrusted files
//
// Everything in a description is checked against the tensors before XNNPACK sees it.
package described
