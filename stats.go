package xpwc

import (
	"cmp"
	"maps"
	"time"
)

// A Count is a number of entries and their bytes.
type Count struct {
	Entries int64
	Bytes   int64
}

// Stats has the counters of a [Cache] since it was opened in this process, and the sizes of its file.
type Stats struct {
	// Hits counts look-ups answered from the cache, with the bytes they served. Misses counts the others.
	Hits   Count
	Misses int64
	// Waits counts the waits of look-ups for another session of this process that was packing the same entry.
	// WaitTimeouts counts waits that ended after Options.WriterWait: the session packed the entry itself.
	Waits        int64
	WaitTimeouts int64
	// Packed counts entries that were packed and put into the cache.
	Packed Count
	// Reused counts packings that turned out equal to an entry the cache had: XNNPACK packs some operators without
	// asking first. The entry is used and nothing is written.
	Reused Count
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
	// Loads are the times from Cache.NewSession to the end of the first Session.Finalize, by each outcome.
	Loads map[LoadOutcome]Durations
	// Reasons counts what made loads slower than mapping, by reason: weights with the bytes that were packed, tensors
	// with the bytes that were read, and waits. A session is counted by Finalize, and private memory at once.
	Reasons map[Reason]Count
	// Private is the part of Reasons that is in private memory.
	Private map[Reason]Count
	// LostPayloads counts packed payloads that may have been lost while a session used them, by the disk before they
	// were committed, or since the file was overwritten: see ErrLost.
	LostPayloads int64
	// CopiedBytes counts packed bytes that were copied into the cache, since their operators are packed without a
	// look-up. All others stay where the packing kernels wrote them.
	CopiedBytes int64

	// MappedBytes and PrivateBytes are what open sessions use now, of the file and of private memory.
	MappedBytes  int64
	PrivateBytes int64

	// Generation is the number of the commit in force, 0 while there is none.
	Generation uint64
	// Entries, FileBytes, PayloadBytes and DeadBytes describe the file of that generation. Dead bytes are old indexes
	// and superseded entries, without padding.
	Entries      int
	FileBytes    int64
	PayloadBytes int64
	DeadBytes    int64
	// WrittenBytes is what this process wrote to the file: payloads, indexes and headers.
	WrittenBytes int64

	// Unusable is the error that keeps the file from being used, with Options.OrMemory, or nil. The cache is in memory.
	Unusable error
	// Damaged is the error that made the cache set the file aside, or nil.
	Damaged error
	// LastError is the last failure that was bridged with private memory, or of a commit, or nil.
	LastError error
}

// Stats returns what all handles of the cache have done so far, and what its file is like. When all of them are closed
// the figures stay, until the file is opened anew in this process: then they are the figures of the new
// handles, from 0, so that whoever watches a file needs one handle of it.
func (c *Cache) Stats() Stats {
	current := c.core
	if slot, present := coreSlots.Load(c.place); present && c.done.Load() {
		current = cmp.Or(slot.(*coreSlot).core.Load(), current)
	}
	return current.stats()
}

// Shares reports whether both are handles of one cache: of one file, one section, or one cache in memory.
func (c *Cache) Shares(o *Cache) bool {
	return c.core == o.core || c.place.path != "" && c.place == o.place
}

func (c *core) stats() Stats {
	f := c.writer.Figures()
	s := Stats{
		Hits: Count(f.Hits), Misses: f.Misses, Waits: f.Waits, WaitTimeouts: f.WaitTimeouts,
		Packed: Count(f.Packed), Reused: Count(f.Reused),
		Verified: Count(f.Verified), DamagedPayloads: f.DamagedPayloads, Unverified: Count(f.Unverified),
		Compactions: f.Compactions, Private: map[Reason]Count{}, Reasons: map[Reason]Count{},
		Loads:        map[LoadOutcome]Durations{},
		LostPayloads: f.LostPayloads, CopiedBytes: f.CopiedBytes,
		MappedBytes: f.MappedBytes, PrivateBytes: f.PrivateBytes,
		Generation: f.Generation, Entries: f.Entries, FileBytes: f.FileBytes, PayloadBytes: f.PayloadBytes,
		DeadBytes: f.DeadBytes, WrittenBytes: f.WrittenBytes, Unusable: c.unusable, Damaged: f.Damaged,
		LastError: cmp.Or(c.events.Err(), f.LastError),
	}
	for reason, count := range f.Private {
		s.Private[Reason(reason)] = Count(count)
		s.Reasons[Reason(reason)] = Count(count)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(s.Reasons, c.reasons)
	s.SourcesChanged = c.sourcesChanged
	for outcome, loads := range c.loads {
		loads.Within = maps.Clone(loads.Within)
		s.Loads[outcome] = loads
	}
	return s
}

// A LoadOutcome is the result of loading a model.
type LoadOutcome string

// The outcomes of a load.
const (
	// LoadMapped: the cache had all packed weights that it was asked for.
	LoadMapped LoadOutcome = "mapped"
	// LoadPacked: XNNPACK packed some weights that the cache did not have, into the file or into private memory.
	LoadPacked LoadOutcome = "packed"
	// LoadFailed: Session.Finalize returned an error.
	LoadFailed LoadOutcome = "failed"
)

// Durations are a histogram of how long something took.
type Durations struct {
	Count int64
	Sum   time.Duration
	// Within has for each of some bounds how many took no longer than that. They are the same for all outcomes.
	Within map[time.Duration]int64
}

// loadBounds are the bounds of Durations, the shortest first.
var loadBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 25 * time.Second, 50 * time.Second,
}

// newDurations returns Durations of nothing.
func newDurations() Durations {
	d := Durations{Within: map[time.Duration]int64{}}
	for _, bound := range loadBounds {
		d.Within[bound] = 0
	}
	return d
}

func (d *Durations) add(took time.Duration) {
	d.Count++
	d.Sum += took
	for bound := range d.Within {
		if took <= bound {
			d.Within[bound]++
		}
	}
}
