// Package xpwc is a cache for XNNPACK's packed weights: it implements XNNPACK's C ABI, struct
// xnn_weights_cache_provider, over a memory-mapped file.
//
// XNNPACK re-lays-out ("packs") every weight matrix when a model is loaded. That takes time and doubles memory, in
// every process again. With this package the packing kernels write straight into a file; the next process maps the
// file, packs nothing, and shares clean pages with all others.
//
// # Basics
//
// A [Cache] is the store behind one path. A [Session] spans one runtime:
//
//	cache, err := xpwc.Open("model.xpwc", nil)
//	session, err := cache.NewSession(dataMap)
//	packed := xpwc.PackedAs(node.Packing(filter, bias, input, output))
//	weights, err := session.Load("layers.0.q_proj", packed) // give &weights[0] to XNNPACK
//	… define the subgraph; xnn_create_runtime_v4(…, session.Provider(), …)
//	err = session.Finalize()                               // sources are freed, the disk is written in the background
//	… run the model
//	… xnn_delete_runtime(…)
//	err = session.Close()
//	err = cache.Close()                                    // waits for the disk
//
// A [DataMap] gives the unpacked tensors by name. Package xpwc/xnnpack binds XNNPACK's subgraphs and runtimes for Go,
// package xpwc/tflite reads .tflite models into both. Packages xpwc/safetensors, xpwc/executorch and xpwc/npy are data
// maps of these formats' files, and [MapOf] is one of a Go map.
//
// Packed weights are found by their names, by everything that went into packing, and by the content they were packed
// from: the layout that XNNPACK packs into on this machine is asked of XNNPACK itself, and a tensor whose [Identity]
// changed is compared by its digest. What is found is used where it lies in the file, read-only.
//
// # When things go wrong
//
// A cache never makes a model fail that would run without it. If the file cannot be written, the disk is full, another
// process is packing for too long, or the file is damaged, weights are packed into private memory; [Stats] counts them
// with the [Reason], and keeps the error; [Options].Logger is told when it happens. Only what the caller can correct is
// an error of [Open].
//
// One thing else is an error: a model whose file was overwritten in place while it was packed. Nobody knows what came
// of which content, so nothing of it is kept, and Session.Finalize returns [ErrSourceChanged]: load the model again.
//
// XNNPACK reads as many bytes of packed weights as it would have packed, whatever the file has: a look-up uses an entry
// only if its size is what XNNPACK says it packs for the geometry that the host told, or, where it told none, at least
// half of the kernel's. Who can write the cache file chooses what a model computes, as who can write the model does.
//
// A commit appends to the file and then switches over by writing one small slot, so that a crash at any instant leaves
// the old or the new state in force. What is committed is never overwritten or cut off while the file is in use.
//
// # Caveats
//
// XNNPACK's look-up key has next to nothing of what decides the packed bytes: not the kernel's shape, nor the groups,
// scales, zero points and block sizes, nor the bias where the input is quantised dynamically. A host tells it with
// [PackedAs], for each use of a kernel. One that tells nothing risks that two uses of one name and content in different
// shapes, groups or quantisations get each other's packed weights: wrong answers, and reads out of bounds.
//
// XNNPACK reads a tensor's content only after a look-up missed, so computed tensors are computed then; but it packs
// some operators without a look-up: see [Eager]. Some constants are read at inference: see [Retain].
//
// Of XNNPACK of November 2024, depthwise convolution (but for NCHW) and batch matrix multiplication never use a weights
// cache.
//
// A file that another program cuts off while it is mapped kills the process that touches the missing pages (SIGBUS), as
// with any mapped file.
//
// A process must not unload the library, nor fork without exec, while caches are open.
package xpwc
