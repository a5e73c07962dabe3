// Package executorch reads ExecuTorch's programs, .pte and .ptd, as far as they are for XNNPACK: it makes models of
// their methods, and packs the weights of any.
//
//	m, err := executorch.Load("model.pte", "model.xpwc", nil)
//	outputs, err := m.Run(ctx, input) // a []float32, for instance
//	err = m.Close()
//
// is all that most programs need, see [xpwc/models/inference]. A host that gives XNNPACK memory, a thread pool or a
// workspace of its own does the same in steps:
//
//	p, err := executorch.Open("model.pte", "weights.ptd") // maps and checks them
//	m, err := p.Method("forward")                         // a models.Model
//	session, err := cache.NewSession(m.DataMap())         // or models.NewMemory, without a cache
//	subgraph, err := m.Subgraph(session)
//	options := &xnnpack.RuntimeOptions{WeightsCache: session}
//	runtime, err := xnnpack.NewRuntime(subgraph, options)
//	… subgraph.Delete(), session.Finalize(), run it, delete it, session.Close()
//	err = p.Close()
//
// A method consists of delegates, parts that XNNPACK computes, and of operators between them. All delegates, and the
// operators that XNNPACK has too, become one subgraph, of all kinds of nodes that ExecuTorch's own XNNPACK backend has
// but ArgMaxPooling2d. Integers that are constants are converted to floats where the method does that. What XNNPACK
// does not have, such as embeddings and what makes masks, is computed in Go: then the method has a subgraph before and
// one after it, see [Method.Stages]. So has one that keeps a state, such as a key-value cache, from one inference to
// the next: it begins as zeros. A method that has yet other operators cannot be run here, [Method.Runnable] lists them;
// its weights can be packed all the same ([Program.Weights]).
//
// A method with dynamic dimensions computes in the shapes of its inputs, see [Method.Resized]: its instructions on
// sizes are computed when it is planned for them.
//
// [Program.Skeleton] writes a program without the weights that the stock runtime has in a file of packed weights. Such
// a skeleton is refused here.
//
// A [File] is the named data of one file, as an [xpwc.DataMap], for programs that make subgraphs of their own. It
// needs no cgo; a [Program] does.
//
// # The formats
//
// Either file is a flatbuffer with a header inserted after its identifier, followed by segments of data. A .ptd's
// identifier is FT01, its header begins with FH01, and its root table is FlatTensor; a .pte's are ET12, eh00 and
// Program. The header has the length of the flatbuffer and the start of the segments. The root table lists the
// segments, by offset and size, and the named data, each a key and the index of its segment; several keys may share
// one. In a .ptd named data may have the tensor's description: type, sizes and order of the dimensions in memory. A
// .pte without a header has no segments, and so no named data. All numbers are little-endian.
//
// A program has execution plans, which are its methods: values, chains of instructions that call operators and
// delegates, and where the delegates' blobs are. A blob of XNNPACK's is a header that begins with XH00 and locates
// the flatbuffer of the graph, XN01 or XN00, and the constants; older ones are a flatbuffer alone. A
// graph has values and nodes, which are calls of xnnpack.h nearly word for word. A constant is in the blob, or has a
// name: it is then named data of the .pte or of a .ptd. Exporters name constants by the SHA-256 of their content, and
// lists of scales so too, with "scale_" before it.
//
// The facts are from ExecuTorch's schema/program.fbs, schema/extended_header.h,
// extension/flat_tensor/serialize/flat_tensor.fbs and flat_tensor_header.h, and of its XNNPACK backend's
// serialization/runtime_schema.fbs, runtime/XNNHeader.h and XNNCompiler.cpp, of github.com/pytorch/executorch in
// August 2026 and release 1.5.1.
//
// # Untrusted files
//
// Everything in a file is checked before it is used: no file makes this package read outside the mapping, and no
// program gives XNNPACK a node whose operands contradict each other. A file that is cut off while it is mapped ends
// the process that reads the missing pages.
package executorch
