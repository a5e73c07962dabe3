package xpwc

import (
	"slices"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// An entry is one packed payload in memory.
type entry struct {
	record format.Record // without Sum and digests until it is committed
	data   []byte
	region *store.Region
	reason Reason   // why it is private; "" for an entry of the cache
	file   [16]byte // identity of the file it lies in
	family *family  // that has it, or nil

	otherSeeds []uint32 // but the record's, under which this process packed its very bytes

	state    entryState // become changes it
	doubt    doubt
	sessions int // that use it

	// Of an entry packed by this process, until its session is finalized: where its stamps and digests come from.
	kernel, bias *source
	by           *Session

	// What is known of it, whatever its state is.
	changed  bool // its flags, stamps or digests changed since it was committed
	verified bool // the payload was compared with a packing, or with its checksum
	sized    bool // the payload's size is right for what a look-up of its key is answered to
	queued   bool // to be verified in the background

	committing bool // while the records of the next generation are made: it is to have this one

	surveyed *format.Index // all records of that index under the entry's key are beside it in core.live
}

// name returns what the entry is called in ExecuTorch's trailer and in what Session.Finalize returns.
func (e *entry) name() string { return e.record.Kernel + e.record.Bias }

// packedUnder reports whether the entry's bytes are known to be what XNNPACK packs under a seed of its key.
func (e *entry) packedUnder(seed uint32) bool {
	return e.record.Seed == seed || slices.Contains(e.otherSeeds, seed)
}

// index returns the loaded index, or nil.
func (c *core) index() *format.Index {
	if c.store == nil {
		return nil
	}
	return c.store.Index()
}

// recordsUnder returns all records that an index has under a key.
func recordsUnder(index *format.Index, key *format.Key) ([]format.Record, error) {
	records := make([]format.Record, 0, 1) // as many as there are mostly
	for r, err := range index.Find(*key) {
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// addLocked adds entries of all records that the loaded index has under a key to those in memory.
func (c *core) addLocked(index *format.Index, key *format.Key, records []format.Record) {
	known := c.live[key.Kernel].under(key)
	for _, e := range known {
		e.surveyed = index
	}
	for i := range records {
		r := &records[i]
		if c.damagedAt[r.Offset] {
			continue
		}
		same := func(e *entry) bool { return c.loaded(e) && e.record.Offset == r.Offset }
		if at := slices.IndexFunc(known, same); at >= 0 {
			known[at].record.Flags |= r.Flags // which another process may have set
		} else {
			c.keep(c.load(r))
		}
	}
}

// load makes an entry of a record of the loaded index.
func (c *core) load(r *format.Record) *entry {
	data, region := c.store.Payload(r)
	e := c.newEntries.take()
	e.record, e.data, e.region, e.file, e.surveyed = *r, data, region, c.store.ID(), c.store.Index()
	c.become(e, stateLoaded)
	return e
}

// keep makes an entry found through the index, or packed just now, one that later look-ups find in memory.
func (c *core) keep(e *entry) {
	e.family = c.family(e.record.Kernel)
	e.family.entries = append(e.family.entries, e)
	e.region.Retain()
}

// release ends a session's use of an entry. A private entry nobody uses, or one of a file that is no longer in place,
// is freed at once; others stay for the next session.
func (c *core) release(e *entry) {
	e.sessions--
	if e.sessions > 0 {
		return
	}
	if e.reason == "" {
		c.stats.MappedBytes -= int64(len(e.data))
		if c.store == nil || e.doubt == sound && e.state != stateMoved && (e.state.fresh() || c.loaded(e)) {
			return
		}
	} else {
		c.stats.PrivateBytes -= int64(len(e.data))
	}
	c.drop(e)
}

// drop frees an entry that nobody uses.
func (c *core) drop(e *entry) {
	if e.state.fresh() {
		c.fresh = without(c.fresh, e)
	}
	c.become(e, stateDropped)
	if e.reason == ReasonUnnamed {
		sum := e.record.Sum
		if c.unnamed[sum] = without(c.unnamed[sum], e); len(c.unnamed[sum]) == 0 {
			delete(c.unnamed, sum)
		}
	} else {
		c.without(e.record.Kernel, func(other *entry) bool { return other == e })
	}
	c.note(e.region.Release())
}

func without(entries []*entry, e *entry) []*entry {
	return slices.DeleteFunc(entries, func(other *entry) bool { return other == e })
}

// loaded reports whether an entry is one of the loaded index.
func (c *core) loaded(e *entry) bool {
	return (e.state == stateLoaded || e.state == stateMoved) && e.reason == "" &&
		c.store != nil && e.file == c.store.ID()
}

// doubled returns s with room for one more, at first for as many as are expected. What append makes of a long slice is
// a quarter longer, and leaves four times as much to the garbage collector.
func doubled[T any](s []T, expected int) []T {
	if len(s) < cap(s) {
		return s
	}
	return slices.Grow(s, max(len(s), expected, 1))
}

// manyEntries is as many as memory is made ready for at once.
const manyEntries = 1024

// uncommitted reports whether an entry is in file space and in no generation on the disk.
func (e *entry) uncommitted() bool {
	return e.state == stateUncommitted && (e.doubt == sound || e.sessions > 0)
}

// identified reports whether an entry says what it was packed from: its session is finalized, see identify.
func (e *entry) identified() bool { return e.kernel == nil }

func (c *core) setFlag(e *entry, flag format.Flags) {
	if e.record.Flags&flag != 0 {
		return
	}
	e.record.Flags |= flag
	if e.reason == "" {
		e.changed, c.dirty = true, true
	}
}
