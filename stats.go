package xpwc

import "time"

// A Reason says why packed weights are in private memory instead of the cache file.
type Reason string

// The reasons for private memory.
const (
	// ReasonUnnamed: XNNPACK packed from a pointer that Session.Load never gave out, so nothing identifies the content.
	ReasonUnnamed Reason = "unnamed"
	// ReasonReadOnly: the file or its directory cannot be written to, or Options.ReadOnly is set.
	ReasonReadOnly Reason = "read-only"
	// ReasonBusy: another process was packing into the file for longer than Options.WriterWait.
	ReasonBusy Reason = "busy"
	// ReasonVersion: the file is of a newer version of the format. It is left to programs that know it.
	ReasonVersion Reason = "version"
	// ReasonDisk: reserving or mapping file space failed; Stats.LastError says how.
	ReasonDisk Reason = "disk"
)

// A Count is a number of entries and their bytes.
type Count struct {
	Entries int64
	Bytes   int64
}

func (c *Count) add(n int) { c.Entries++; c.Bytes += int64(n) }

// Stats has what a [Cache] has done since it was opened in this process, and what its file is like.
type Stats struct {
	// Hits counts look-ups answered from the cache, with the bytes they served. Misses counts the others.
	Hits   Count
	Misses int64
	// Packed counts entries that were packed and put into the cache.
	Packed Count
	// Reused counts packings that turned out equal to an entry the cache had: XNNPACK packs some operators without
	// asking first. The entry is used and nothing is written.
	Reused Count
	// Adopted counts, of those packed, the ones that ExecuTorch's file at the path had in the same bytes.
	Adopted Count
	// Verified counts payloads that Options.Verify found right; DamagedPayloads those that were found wrong, or could
	// not be read, whenever they were looked at. These are packed afresh by the next session. Unverified are those
	// that open sessions use and that are yet to be verified in the background: none a while after the last
	// Session.Finalize.
	Verified        Count
	DamagedPayloads int64
	Unverified      Count
	// SourcesChanged counts what changed while a session packed from it, once for each Watch and session: nothing of
	// it was kept.
	SourcesChanged int64
	// Compactions of the file by this process.
	Compactions int64
	// Loads are the times from Cache.NewSession to the end of the first Session.Finalize, by outcome.
	Loads map[LoadOutcome]Durations
	// Private counts packings that are in private memory, by reason.
	Private map[Reason]Count
	// LostPayloads counts packed payloads that may have been lost while a session used them, by the disk before they
	// were committed, or since the file was overwritten: see ErrLost.
	LostPayloads int64
	// CopiedBytes counts packed bytes that were copied to where they stay: those of operators that are packed without a
	// look-up. All others are used where the packing kernels wrote them.
	CopiedBytes int64
	// PackingTime is what XNNPACK's packing took, from reserving space to handing it in.
	PackingTime time.Duration

	// MappedBytes and PrivateBytes are what open sessions use now, of the file and of private memory.
	MappedBytes  int64
	PrivateBytes int64

	// Generation is the number of the commit in force, 0 while there is none.
	Generation uint64
	// Entries, FileBytes, PayloadBytes and DeadBytes describe the file of that generation. Dead bytes are those that
	// nothing refers to: old indexes and superseded entries, but not what aligns payloads.
	Entries      int
	FileBytes    int64
	PayloadBytes int64
	DeadBytes    int64
	// WrittenBytes is what this process wrote to the file: payloads, indexes and headers.
	WrittenBytes int64

	// Damaged is the error that made the cache set the file aside, or nil.
	Damaged error
	// LastError is the last failure that was bridged with private memory, or of a commit, or nil.
	LastError error
}
