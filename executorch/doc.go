// Package executorch reads the named data of ExecuTorch's files, .ptd and .pte, and gives it to sessions: a [File] is
// an [xpwc.DataMap] as ExecuTorch's own NamedDataMap is one.
//
//	weights, err := executorch.OpenFile("model.ptd")    // maps the file, checks it, reads no tensor
//	session, err := cache.NewSession(weights)
//	kernel, err := session.Load("linear.weight")
//	… create the runtime, session.Finalize(), run it, delete it, session.Close()
//	err = weights.Close()
//
// Programs themselves are not read: ExecuTorch runs what a .pte computes.
//
// # The formats
//
// Either file is a flatbuffer with a header inserted after its identifier, followed by segments of data. A .ptd's
// identifier is FT01, its header begins with FH01, and its root table is FlatTensor; a .pte's are ET12, eh00 and
// Program. The header says how long the flatbuffer is and where the segments begin. The root table lists the
// segments, by offset and size, and the named data, each a key and the index of its segment; several keys may share
// one. In a .ptd named data may say what tensor it is: type, sizes and order of the dimensions in memory. A .pte
// without a header has no segments, and so no named data. All numbers are little-endian.
//
// The facts are from ExecuTorch's schema/program.fbs, schema/extended_header.h,
// extension/flat_tensor/serialize/flat_tensor.fbs and flat_tensor_header.h beside it, of
// github.com/pytorch/executorch in August 2026 and release 1.5.1.
//
// # Untrusted files
//
// All that a file says is checked before it is used: no file makes this package read outside the mapping. A file that
// is cut off while it is mapped ends the process that reads the missing pages.
package executorch
