package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"xpwc/internal/fd"
	"xpwc/internal/store"
)

// A core is what all handles of one place share. Its methods are called with mu held unless they say otherwise.
type core struct {
	place   place
	options Options

	mu              sync.Mutex
	handles         int // that are not closed
	closing         bool
	closed          bool
	sessions        map[*Session]bool // that are open
	tensorsExpected int               // that a session loads, going by the last one
	writers         int               // sessions that pack into the file
	store           *store.Store
	arena           arena
	blocked         Reason // why the file cannot be written to, or ""
	damaged         bool   // the file is to be set aside before anything is written

	live     map[string]*family  // by the kernel's name: what sessions use or used, and what was packed here
	unnamed  map[Digest][]*entry // by digest of the packed bytes
	liveFrom loadedIndex         // what live was found through
	evidence evidence            // that the loaded index has of layouts
	fresh    []*entry            // packed here and not in the loaded index

	newEntries  stock[entry]
	newFamilies stock[family]

	damagedAt       map[uint64]bool // offsets of payloads of the loaded file that turned out damaged
	dirty           bool            // an entry of the file changed its flags or stamps, or is bad
	commitTimer     *time.Timer     // starts a commit, or nil
	busyUntil       time.Time       // until then nobody waits for another process
	ended           error           // why the file ended that this process wrote to last
	endedUntil      time.Time       // until then it does not write to another
	committing      bool
	summing         int  // sums of what was handed in are being computed
	storing         bool // a commit or a compaction is being written, without c.mu
	compacting      bool
	commitAgain     bool       // a commit was asked for while one was written, or a compaction
	idle            *sync.Cond // a commit, a compaction or a session's packing ended
	commitErr       error      // of the last commit
	uncommittedLost error      // something packed is in a file that is no longer in place; Save reports it once
	verifier        verifier
	mapper          mapper

	handedOver *os.File // by the caller of OpenFile, or nil

	stats  Stats
	events eventLogs    // of all handles
	now    func() int64 // seconds since 1970
}

// newCore makes the core of a place, and loads its file, which f finds. events is given what is found.
func newCore(p place, o Options, f store.Files, events *eventLog) (*core, error) {
	if err := fd.StartPoller(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	c := &core{
		place:     p,
		options:   o,
		live:      map[string]*family{},
		unnamed:   map[Digest][]*entry{},
		sessions:  map[*Session]bool{},
		damagedAt: map[uint64]bool{},
		now:       func() int64 { return time.Now().Unix() },
	}
	c.idle = sync.NewCond(&c.mu)
	c.verifier.pause = verifyPause
	events.attach(c)
	c.stats.Private, c.stats.Loads = map[Reason]Count{}, map[LoadOutcome]Durations{}
	if p.path == "" {
		return c, nil
	}
	c.store = store.New(p.path, f, store.Options{
		Prefetch: o.Prefetch,
		Early:    o.WriteEarly,
	})
	if err := c.accept(c.store.Load()); err != nil {
		return nil, err
	}
	c.noticeReload()
	c.askForLayout()
	if c.store.Index() != nil {
		c.tensorsExpected = min(c.store.Index().Len(), manyEntries/8)
	}
	return c, nil
}

// name is what error messages call the cache.
func (c *core) name() string {
	if c.place.path == "" {
		return "in memory"
	}
	return c.place.path
}

// note keeps an error that changes nothing for the caller for Stats.
func (c *core) note(err error) {
	if err != nil {
		c.stats.LastError = err
	}
}

// save waits until what finalized sessions packed is on stable storage.
func (c *core) save() error {
	c.commitErr = nil
	c.startCommit()
	for c.committing || c.compacting {
		c.idle.Wait()
	}
	err := cmp.Or(c.commitErr, c.uncommittedLost)
	c.uncommittedLost = nil
	return err
}

// close saves and gives up everything, for the last handle.
func (c *core) close() error {
	c.closing = true // no session can begin any more
	errs := []error{c.save()}
	c.stopVerifier()
	c.stopMapper()
	c.describeFile()
	for _, f := range c.live {
		for _, e := range f.entries {
			errs = append(errs, e.region.Release())
		}
	}
	c.live, c.fresh = nil, nil
	errs = append(errs, c.arena.drop())
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	if c.handedOver != nil {
		errs = append(errs, c.handedOver.Close())
	}
	c.closed = true
	c.idle.Broadcast()
	return errors.Join(errs...)
}

// describeFile brings the figures of the file up to date, for as long as it is open.
func (c *core) describeFile() {
	if c.store == nil || c.closed {
		return
	}
	slot := c.store.Slot()
	c.stats.Generation, c.stats.Entries = slot.Generation, int(slot.Records)
	c.stats.FileBytes = int64(slot.End)
	c.stats.PayloadBytes, c.stats.DeadBytes = int64(slot.PayloadBytes), int64(slot.DeadBytes)
}
