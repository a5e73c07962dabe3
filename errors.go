package xpwc

import (
	"errors"

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
	// ErrShape: PackedAs says of a tensor that it is a kernel of another size.
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
	// ErrOptions: the options say what cannot be.
	ErrOptions = errors.New("impossible options")
	// ErrBusy: another process, or a session of this one, is writing to the file.
	ErrBusy = writer.ErrBusy
	// ErrReplaced: another file is at the path than the one that was being written, or none. What was packed lasts as
	// long as sessions use it; the next session follows the path.
	ErrReplaced = store.ErrReplaced
	// ErrLost: the disk lost packed weights before they were committed, or may have, or the cache file was overwritten
	// or cut off while it was in use; and a runtime uses them. The runtime must not be used.
	ErrLost = writer.ErrLost
	// ErrSourceChanged: what was packed comes from a file, say, that was changed in place meanwhile, so nobody knows
	// what it was packed from. It is not kept, and the runtime must not be used.
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
