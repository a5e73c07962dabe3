// Package xnnpack binds XNNPACK's subgraph API: values (tensors) and the nodes (operators) between them are defined
// in a [Subgraph], a [Runtime] is made of it, and the runtime is reshaped, set up with the caller's buffers and
// invoked. The example shows all of it.
//
// The functions, their arguments and the meaning of every field follow the header xnnpack.h of XNNPACK commit 4ea82e5
// (2024-11-08). Only forms that headers up to August 2026 still have are used, so the package compiles against either.
//
// # Memory
//
// XNNPACK keeps pointers, and may read up to [ExtraBytes] bytes past the end of an array (it never writes there).
//
//   - XNNPACK keeps the address of [Tensor].Data, and copies nothing. It must lie outside the Go heap (a file mapping,
//     a [Buffer], C memory) or be pinned by the caller. Data that packing consumes (kernels and biases of the
//     weight-bearing nodes) must stay readable until the runtime is created; data read at inference (slopes, constants
//     of elementwise nodes, weights of a node whose weights are not packed) until every runtime made of the subgraph is
//     deleted.
//   - Scales given in a [Quantization] are copied. The copies live as long as the subgraph and every runtime made of
//     it.
//   - Buffers given to [Runtime.Setup] are kept until the next Setup or [Runtime.Delete]. A [Buffer] is best: it is
//     outside the Go heap and has the slack after its end that XNNPACK may read. A Go slice works too; the runtime pins
//     it meanwhile.
//
// Nothing here has a finalizer: the caller deletes what is created. Deleting twice is harmless, and using what was
// deleted is an error that matches [InvalidState].
//
// # Errors
//
// Every error matches a [Status] (errors.Is): the one XNNPACK returned, or that of a check of this package, which
// refuses what XNNPACK does not check. All except errors of [Datatype.ByteSize] are of type *[Error], which has the
// operands' names and shapes. XNNPACK checks some combinations of types and shapes only in [NewRuntime] or
// [Runtime.Reshape].
//
// # Threads
//
// A Subgraph, a Runtime and the other objects may be used from many goroutines; calls on one object wait for each
// other. Runtimes that share a [Workspace] or a [Threadpool] must not be reshaped, set up or invoked at the same
// time.
//
// # Known defects
//
// [KnownDefects] lists what builds of XNNPACK are known to compute wrongly, and where. A node that such a defect
// concerns is an error that matches [ErrKnownDefect].
package xnnpack
