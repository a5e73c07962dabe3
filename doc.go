// Package xpwc is a cache for XNNPACK's packed weights: it implements XNNPACK's C ABI, struct
// xnn_weights_cache_provider, over a memory-mapped file.
//
// XNNPACK rearranges ("packs") every weight matrix when a model is loaded. That takes time and doubles memory, in every
// process again. With this package the packing kernels write directly into a file; the next process maps the file,
// packs nothing, and shares clean pages with all other processes.
//
// # Basics
//
// A [Cache] is a handle of the packed weights of one file, or of memory alone. Handles of one path share what is
// mapped and packed. A [Session] spans one runtime:
//
//	cache, err := xpwc.Open("model.xpwc", nil)
//	session, err := cache.NewSession(dataMap)
//	packed := xpwc.PackedAs(node.Packing(filter, bias, input, output))
//	weights, err := session.Load("layers.0.q_proj", packed)
//	… define the subgraph with the memory of weights
//	… xnn_create_runtime_v4(…, session.Provider(), …)
//	err = session.Finalize() // frees sources; the disk is written meanwhile
//	… run the model
//	err = session.Err()      // after each inference, before outputs are used
//	… xnn_delete_runtime(…)
//	err = session.Close()
//	err = cache.Close()      // waits for the disk
//
// A [DataMap] gives the unpacked tensors by name. Package xpwc/xnnpack binds XNNPACK's subgraphs and runtimes for Go,
// and packages xpwc/models/tflite, xpwc/models/executorch and xpwc/models/described read models into both, by the
// contract of package xpwc/models. Package xpwc/models/inference does all of the above in one call, and runs the model.
// Packages xpwc/models/safetensors and xpwc/models/executorch have data maps of these formats' files, and [MapOf] is
// one of a Go map.
//
// Packed weights are found by their names, by everything that went into packing, and by the content that they were
// packed from. XNNPACK itself shows the layout that it packs into on this machine. A tensor whose [Identity] changed is
// compared by its digest. What is found is used where it lies in the file, read-only.
//
// # When things go wrong
//
// A cache never makes a model fail that would run without it. If the file cannot be written, the disk is full, another
// process is packing for too long, or the file is damaged, weights are packed into private memory; [Stats] keeps the
// error. Whatever makes a load slower than mapping has a [Reason], which [Stats] counts, [Options].Logger is given, and
// [Session.Explain] relates to weights. Only what the caller can correct is an error of [Open].
//
// A model whose file was overwritten in place while it was packed is an error too. Nobody knows which content was
// packed, so nothing of it is kept, and [Session.Finalize] returns [ErrSourceChanged]: load the model again.
//
// A disk that fails may lose what was packed and not yet committed, while a runtime uses it. A failed flush ends the
// file: it is set aside, and the sessions that use what was not committed have [ErrLost]: load the model again. They
// have it, too, if another program writes over the file or cuts it off: a file is put in place by renaming it.
//
// XNNPACK reads as many bytes of packed weights as it would have packed, whatever the file has. So a look-up uses an
// entry only if its size is what XNNPACK packs for the geometry that the host gave; of a kernel that the host vouches
// for without one ([Believe]), at least half of the kernel's. A user who can write the cache file chooses what a model
// computes, as who can write the model does.
//
// A commit appends to the file and then switches over by writing one small slot, so that a crash at any instant leaves
// the old or the new state in force. What is committed is never overwritten or cut off while the file is in use.
//
// # Caveats
//
// XNNPACK's look-up key lacks most of what decides the packed bytes: the kernel's shape, groups, scales, zero points,
// block sizes, and the bias where the input is quantised dynamically. A host gives all that with [PackedAs], for each
// use of a kernel. A kernel without it is packed and compared at each start, unless the host asks for [Believe].
//
// XNNPACK reads a tensor's content only after a look-up missed, so computed tensors are computed then; but it packs
// some operators without a look-up: see [Eager]. Some constants are read at inference: see [Retain].
//
// In XNNPACK of November 2024, depthwise convolution (except NCHW) and batch matrix multiplication never use a weights
// cache.
//
// A file that another program cuts off while it is mapped kills the process that touches the missing pages (SIGBUS), as
// with any mapped file.
//
// A process must not unload the library, nor fork without exec, while caches are open.
package xpwc

import (
	"errors"
	"runtime/debug"
	"strings"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
	"xpwc/internal/trust"
	"xpwc/internal/writer"
)

// Errors that callers test for with errors.Is. What is returned wraps them with the path or name concerned.
// ErrNotCache, ErrDamaged, ErrForeign and ErrVersion are also those of packages cachefile and registry.
var (
	// ErrNoDataMap: Session.Load on a session that was made without a data map.
	ErrNoDataMap = errors.New("the session has no data map; give NewSession one")
	// ErrShape: the packing identity of PackedAs is for a kernel of another size.
	ErrShape = errors.New("the shape that it is packed as contradicts its size")
	// ErrNotEager: XNNPACK packed a computed tensor before its content was there. The runtime must not be used.
	ErrNotEager = errors.New("its content was not there; load it with Eager")
	// ErrClosed: the cache, session, model or file was closed before.
	ErrClosed = writer.ErrClosed
	// ErrFinalized: the call must come before Session.Finalize.
	ErrFinalized = errors.New("the session is finalized; load before Finalize")
	// ErrInUse: the cache still has open sessions, whose runtimes use its memory.
	ErrInUse = writer.ErrInUse
	// ErrNotCache: the file is not one that xpwc or ExecuTorch wrote. It is never touched.
	ErrNotCache = format.ErrNotCache
	// ErrUnsafeFile: another user could change the file, or the path leads to something that is not a regular file.
	ErrUnsafeFile = trust.ErrUnsafe
	// ErrDamaged: the file is a cache, and a checksum in it is wrong, or it breaks a rule of docs/format.md.
	ErrDamaged = format.ErrDamaged
	// ErrForeign: ExecuTorch wrote the file. It has neither the layout of its entries nor what they were packed from.
	ErrForeign = format.ErrForeign
	// ErrVersion: the file was written in a format of another version of xpwc. Without Options.Strict a newer one is
	// left alone, and an older one replaced when something is packed.
	ErrVersion = format.ErrVersion
	// ErrOtherOptions: the path is already open in this process with other options.
	ErrOtherOptions = errors.New("already open with other options; use the same ones, or close it first")
	// ErrOptions: the options contradict each other, or have an impossible value.
	ErrOptions = errors.New("impossible options")
	// ErrBusy: another process, or a session of this one, is writing to the file.
	ErrBusy = writer.ErrBusy
	// ErrReplaced: another file is at the path than the one that was being written, or none. What was packed lasts as
	// long as sessions use it; the next session follows the path.
	ErrReplaced = store.ErrReplaced
	// ErrLost: the disk lost packed weights before they were committed, or may have, or the cache file was overwritten
	// or cut off while it was in use; and a runtime uses them. The runtime must not be used.
	ErrLost = writer.ErrLost
	// ErrSourceChanged: a source, the model's file for instance, was changed in place while it was packed. The packed
	// weights may mix both contents. They are not kept, and the runtime must not be used.
	ErrSourceChanged = entries.ErrSourceChanged
	// ErrReadOnly: the file cannot be written to, or Options.ReadOnly is set.
	ErrReadOnly = writer.ErrReadOnly
	// ErrMisaligned: the section does not begin where this system can map it.
	ErrMisaligned = errors.New("it cannot be mapped there; write the file anew with the section at a multiple of " +
		"65536, which suits every system")
	// ErrOtherXNNPACK: the program is linked with an XNNPACK whose weights cache has other structs than the header that
	// xpwc was compiled with. The error names both. Options.OrMemory does not avoid it: no cache could serve that
	// XNNPACK.
	ErrOtherXNNPACK = ask.ErrOtherXNNPACK
	// ErrNoCgo: this build has no C boundary (CGO_ENABLED=0), so it can inspect cache files but not serve XNNPACK.
	ErrNoCgo = ask.ErrNoCgo
)

// Version of this module, of the C library with its headers, and of the tool. Before 1.0 a minor version may change
// interfaces and the file's format.
const Version = "0.6.0"

// Commit returns the commit of xpwc that a program of its modules was built from, twelve digits, with a + if files were
// changed; "" if it is not known: in tests, and in programs of others' modules, whose commit is another.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != "xpwc" && !strings.HasPrefix(info.Main.Path, "xpwc/") {
		return ""
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+"
		}
	}
	if revision == "" {
		return ""
	}
	return revision[:min(len(revision), 12)] + modified
}
