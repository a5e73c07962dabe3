package xpwc

import (
	"maps"
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

	state    entryState // become changes it
	doubt    doubt
	sessions int // that use it

	// Of an entry packed by this process, until its session is finalized: where its stamps and digests come from.
	kernel, bias *source
	by           *Session

	// What is known of it, whatever its state is.
	summed   bool // record.Sum is that of what XNNPACK handed in
	changed  bool // its flags, stamps or digests changed since it was committed
	verified bool // the payload was compared with a packing, or with its checksum
	sized    bool // the payload's size is right for what a look-up of its key is answered to
	queued   bool // to be verified in the background

	surveyed *format.Index // all records of that index under the entry's key are beside it in core.live
}

// name returns what the entry is called in ExecuTorch's trailer and in what Session.Finalize returns.
func (e *entry) name() string { return e.record.Kernel + e.record.Bias }

// candidates returns all entries under a key of a family, whatever their seeds and contents. The slice is the cache's
// own. The error, with Options.Strict, is that the loaded index turned out damaged; by default that leaves what is
// packed afresh.
func (c *core) candidates(key *format.Key, f *family) ([]*entry, error) {
	entries := f.under(key)
	if c.store == nil || c.store.Index() == nil || len(entries) > 0 && entries[0].surveyed == c.store.Index() {
		return soundOnes(entries), nil
	}
	if err := c.survey(key, entries); err != nil {
		err = c.accept(c.store.Damaged(err))
		return soundOnes(c.live[key.Kernel].under(key)), err // it may be another family
	}
	return soundOnes(f.under(key)), nil
}

// survey adds entries of all records that the loaded index has under a key to those in memory, which are given.
func (c *core) survey(key *format.Key, known []*entry) error {
	index := c.store.Index()
	var found []*entry
search:
	for r, err := range index.Find(*key) {
		if err != nil {
			return err
		}
		if c.bad[r.Offset] {
			continue
		}
		for _, e := range known {
			if c.loaded(e) && e.record.Offset == r.Offset {
				e.record.Flags |= r.Flags // which another process may have set
				continue search
			}
		}
		data, region := c.store.Payload(&r)
		e := &entry{record: r, data: data, region: region, file: c.store.ID(), surveyed: index}
		c.become(e, stateLoaded)
		found = append(found, e)
	}
	for _, e := range known {
		e.surveyed = index
	}
	for _, e := range found {
		c.keep(e)
	}
	return nil
}

// keep makes an entry found through the index, or packed just now, one that later look-ups find in memory.
func (c *core) keep(e *entry) {
	f := c.family(e.record.Kernel)
	f.entries = append(f.entries, e)
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
		if e.pending() {
			return
		}
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
		c.forgetSeeds()
	}
	c.note(e.region.Release())
}

func without(entries []*entry, e *entry) []*entry {
	return slices.DeleteFunc(entries, func(other *entry) bool { return other == e })
}

// loaded reports whether an entry is one of the loaded index.
func (c *core) loaded(e *entry) bool {
	return (e.state == stateLoaded || e.state == stateMoved) && e.reason == "" && c.store != nil && e.file == c.store.ID()
}

// distrust keeps new sessions from memory whose file is damaged: it may be cut off.
func (c *core) distrust() {
	for _, f := range c.live {
		for _, e := range f.entries {
			if e.reason == "" && e.state.inGeneration() {
				e.suspectFor(suspect)
			}
		}
	}
	if c.store.Writing() { // what was packed here is not damaged, and goes on elsewhere
		c.retreat(c.freshOnes((*entry).uncommitted))
	}
	c.note(c.store.Abandon())
	c.noticeReload()
}

// noticeReload compares what the store has loaded with what the cache knows of it. It follows everything that may load
// another generation or another file.
func (c *core) noticeReload() {
	if now := (loadedIndex{c.store.ID(), c.store.Index()}); now != c.known {
		if now.file != c.known.file {
			c.bad = map[uint64]bool{}
		}
		c.known = now
		c.forgetLoaded()
		if len(c.live) == 0 && now.index != nil {
			c.live = make(map[string]*family, min(now.index.Len(), manyEntries))
		}
	}
}

// manyEntries is as many as memory is made ready for at once.
const manyEntries = 1024

// loadedIndex tells one loaded generation from another.
type loadedIndex struct {
	file  [16]byte
	index *format.Index
}

// forgetLoaded drops what was found through an index that is no longer the loaded one. Entries in use stay: their
// memory does not change.
func (c *core) forgetLoaded() {
	here := c.store.ID()
	c.fresh = slices.DeleteFunc(c.fresh, func(e *entry) bool {
		switch {
		case e.state == stateCommitted: // it is in the new index, unless that is of another file
			c.become(e, stateLoaded)
		case e.file == here || e.pending():
			return false
		case e.state == statePending:
			c.become(e, statePrivate)
		default: // it is lost with the file
			c.become(e, stateStray)
		}
		return true
	})
	for kernel := range c.live {
		c.without(kernel, func(e *entry) bool {
			if e.sessions > 0 || e.reason != "" || e.state.fresh() || e.changed && e.file == here {
				return false
			}
			c.note(e.region.Release())
			c.become(e, stateDropped)
			return true
		})
	}
	c.forgetSeeds()
}

// forgetSeeds forgets what it knows of entries that were dropped.
func (c *core) forgetSeeds() {
	maps.DeleteFunc(c.seeds, func(_ seedKey, e *entry) bool { return e.state == stateDropped })
}
