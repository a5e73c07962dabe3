package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"xpwc/internal/format"
)

// A Cache holds the packed weights of one cache file, or of memory alone. All its methods may be called from several
// goroutines. Runtimes that are being executed never wait for it.
type Cache struct {
	path    string // absolute; "" for a cache in memory
	options Options
	layout  format.Layout

	mu       sync.Mutex
	openings int
	closing  bool
	closed   bool
	sessions int
	writers  int // sessions that pack into the file
	store    *store
	arena    arena
	blocked  Reason // why the file cannot be written to, or ""
	damaged  bool   // the file is to be set aside before anything is written

	live    map[format.Key][]*entry // what sessions use or used, and what was packed here
	unnamed map[Digest][]*entry     // by digest of the packed bytes
	known   loadedIndex             // what live was found through
	seeds   map[seedKey]*entry      // other seeds under which this process packed an entry's very bytes
	fresh   []*entry                // packed here and not in the loaded index

	bad        map[uint64]bool // offsets of payloads of the loaded index that turned out damaged
	dirty      bool            // an entry of the file changed its flags or stamps, or is bad
	committing bool
	compacting bool
	again      bool
	idle       *sync.Cond // a commit, a compaction or a session's packing ended
	commitErr  error      // of the last commit

	stats Stats
	now   func() int64 // seconds since 1970
}

type seedKey struct {
	format.Key
	seed uint32
}

var registry = struct {
	sync.Mutex
	caches map[string]*Cache
}{caches: map[string]*Cache{}}

// Open opens the cache file at path, which need not exist: it is created, for its owner only, when the first weights are
// packed. Its directory must exist. An empty path gives a cache in memory. Opening a path that is open in this process
// gives the same Cache, which must be closed as often; ErrOtherOptions if the options differ.
//
// Errors: ErrNotCache for a directory or a file that is something else, ErrUnsafeFile, ErrVersion, with Options.Strict
// also ErrCorrupt and ErrForeign, and those of the system. A file or directory that cannot be written to is no error:
// what must be packed goes into private memory then, and Stats says so.
func Open(path string, options *Options) (*Cache, error) {
	o := options.withDefaults()
	if o.TrailerVersion != format.TrailerV1 && o.TrailerVersion != format.TrailerV2 {
		return nil, fmt.Errorf("open cache: unknown trailer version %d", o.TrailerVersion)
	}
	if path == "" {
		return newCache("", o)
	}
	path, err := canonical(path)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	for {
		c, err := openOnce(path, o)
		if c != nil || err != nil {
			return c, err
		}
	}
}

// openOnce finds the open cache of a path or makes one. It returns neither when one was just being closed.
func openOnce(path string, o Options) (*Cache, error) {
	registry.Lock()
	defer registry.Unlock()
	if c := registry.caches[path]; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.closing:
			registry.Unlock()
			for !c.closed {
				c.idle.Wait()
			}
			c.mu.Unlock() // the registry's lock comes first
			registry.Lock()
			c.mu.Lock()
			if registry.caches[path] == c {
				delete(registry.caches, path)
			}
			return nil, nil
		case !c.options.same(o):
			return nil, fmt.Errorf("cache %s: %w", path, ErrOtherOptions)
		}
		c.openings++
		return c, nil
	}
	c, err := newCache(path, o)
	if err != nil {
		return nil, err
	}
	registry.caches[path] = c
	return c, nil
}

// canonical makes the path of one file the same however it is written. A final symbolic link is kept: whether it may be
// followed is for the store to say.
func canonical(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

func newCache(path string, o Options) (*Cache, error) {
	layout, err := currentLayout()
	if err != nil {
		return nil, err
	}
	c := &Cache{
		path:     path,
		options:  o,
		layout:   layout,
		openings: 1,
		live:     map[format.Key][]*entry{},
		unnamed:  map[Digest][]*entry{},
		seeds:    map[seedKey]*entry{},
		bad:      map[uint64]bool{},
		now:      func() int64 { return time.Now().Unix() },
	}
	c.idle = sync.NewCond(&c.mu)
	c.stats.Private = map[Reason]Count{}
	if path == "" {
		return c, nil
	}
	c.store = &store{
		path:     path,
		insecure: o.AllowUnsafeFile,
		readOnly: o.ReadOnly,
		prefetch: o.Prefetch,
		files:    osFiles{},
	}
	if err := c.accept(c.store.load()); err != nil {
		return nil, err
	}
	return c, nil
}

// accept turns what loading the file found into what it means for the cache; the error is one for the caller of Open.
func (c *Cache) accept(err error) error {
	switch {
	case err == nil:
		if c.store.readOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case c.options.Strict:
		return errors.Join(err, c.store.close())
	case errors.Is(err, ErrCorrupt):
		c.damaged, c.stats.Damaged = true, err
		c.distrust()
		if c.store.readOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case errors.Is(err, ErrForeign):
		if c.store.readOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	default:
		return err
	}
}

// refresh picks up a newer generation that another process committed.
func (c *Cache) refresh() error {
	if c.store == nil || c.damaged {
		return nil
	}
	defer c.noticeReload()
	return c.accept(c.store.refresh())
}

// noticeReload compares what the store has loaded with what the cache knows of it. It follows everything that may load
// another generation or another file.
func (c *Cache) noticeReload() {
	if now := (loadedIndex{c.store.id, c.store.index}); now != c.known {
		c.known = now
		c.forgetLoaded()
	}
}

// loadedIndex tells one loaded generation from another.
type loadedIndex struct {
	file  [16]byte
	index *format.Index
}

// distrust keeps new sessions from memory whose file is damaged: it may be cut off.
func (c *Cache) distrust() {
	for _, entries := range c.live {
		for _, e := range entries {
			e.suspect = e.suspect || e.reason == "" && e.committed
		}
	}
	c.note(c.store.abandon())
	c.noticeReload()
}

// loaded reports whether an entry is one of the loaded index.
func (c *Cache) loaded(e *entry) bool {
	return !e.fresh && e.reason == "" && c.store != nil && e.file == c.store.id
}

// forgetLoaded drops what was found through an index that is no longer the loaded one. Entries in use stay: their memory
// does not change.
func (c *Cache) forgetLoaded() {
	here := c.store.id
	c.fresh = slices.DeleteFunc(c.fresh, func(e *entry) bool {
		// What was committed is in the new index, unless that is of another file; what was not is lost with the file.
		gone := e.committed || e.file != here
		if gone {
			e.fresh = false
		}
		return gone
	})
	for key, entries := range c.live {
		kept := slices.DeleteFunc(entries, func(e *entry) bool {
			if e.sessions > 0 || e.reason != "" || e.fresh || e.changed && e.file == here {
				return false
			}
			c.note(e.region.release())
			c.forgetSeeds(e)
			return true
		})
		if len(kept) == 0 {
			delete(c.live, key)
		} else {
			c.live[key] = kept
		}
	}
	c.bad = map[uint64]bool{}
}

func (c *Cache) forgetSeeds(e *entry) {
	for k, other := range c.seeds {
		if other == e {
			delete(c.seeds, k)
		}
	}
}

// candidates returns all entries under a key, whatever their seeds and contents.
func (c *Cache) candidates(key format.Key) []*entry {
	live := slices.DeleteFunc(slices.Clone(c.live[key]), func(e *entry) bool { return e.suspect })
	if c.store == nil || c.store.index == nil {
		return live
	}
	all := live
search:
	for i := range c.store.index.Find(key) {
		r := c.store.index.Record(i)
		if c.bad[r.Offset] {
			continue
		}
		for _, e := range c.live[key] {
			if c.loaded(e) && e.record.Offset == r.Offset {
				e.record.Flags |= r.Flags // which another process may have set
				continue search
			}
		}
		all = append(all, &entry{
			record:    r,
			data:      c.store.base.data[r.Offset : r.Offset+r.Size : r.Offset+r.Size],
			region:    c.store.base,
			file:      c.store.id,
			committed: true,
		})
	}
	return all
}

// keep makes an entry found through the index, or packed just now, one that later look-ups find in memory.
func (c *Cache) keep(e *entry) {
	if slices.Contains(c.live[e.record.Key], e) {
		return
	}
	c.live[e.record.Key] = append(c.live[e.record.Key], e)
	e.region.retain()
}

// release ends a session's use of an entry. A private entry nobody uses, or one of a file that is no longer in place, is
// freed at once; others stay for the next session.
func (c *Cache) release(e *entry) {
	e.sessions--
	if e.sessions > 0 {
		return
	}
	if e.reason == "" {
		c.stats.MappedBytes -= int64(len(e.data))
		if c.store == nil || !e.suspect && !e.moved && (e.fresh || c.loaded(e)) {
			return
		}
	} else {
		c.stats.PrivateBytes -= int64(len(e.data))
	}
	c.fresh = without(c.fresh, e)
	if e.reason == ReasonUnnamed {
		c.unnamed[Digest(e.record.Sum)] = without(c.unnamed[Digest(e.record.Sum)], e)
		if len(c.unnamed[Digest(e.record.Sum)]) == 0 {
			delete(c.unnamed, Digest(e.record.Sum))
		}
	} else {
		c.live[e.record.Key] = without(c.live[e.record.Key], e)
		if len(c.live[e.record.Key]) == 0 {
			delete(c.live, e.record.Key)
		}
		c.forgetSeeds(e)
	}
	c.note(e.region.release())
}

// note keeps an error that changes nothing for the caller for Stats to tell.
func (c *Cache) note(err error) {
	if err != nil {
		c.stats.LastError = err
	}
}

func without(entries []*entry, e *entry) []*entry {
	return slices.DeleteFunc(entries, func(other *entry) bool { return other == e })
}

// beginWriting makes this process the writer of the file, waiting for another one within limits. It returns the reason
// why it is not, or "". c.mu is held, but not while waiting.
func (c *Cache) beginWriting(compacting bool) Reason {
	deadline := time.Now().Add(c.options.WriterWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if c.blocked != "" {
			return c.blocked
		}
		var ok bool
		var err error
		if compacting || !c.compacting {
			ok, err = c.tryBegin()
		}
		if ok {
			return ""
		}
		retry := err == nil
		if errors.Is(err, errReplaced) {
			err = c.accept(c.store.reopen())
			retry = err == nil
		} else if errors.Is(err, ErrCorrupt) {
			err = c.accept(err)
			retry = err == nil
		}
		c.noticeReload()
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, errReadOnlyFileSystem):
			c.note(err)
			c.blocked = ReasonReadOnly
			return c.blocked
		case !retry:
			c.note(err)
			return ReasonDisk
		case time.Now().After(deadline):
			return ReasonBusy
		}
		c.mu.Unlock()
		time.Sleep(pause)
		c.mu.Lock()
	}
}

func (c *Cache) tryBegin() (bool, error) {
	defer c.noticeReload()
	if c.damaged {
		if err := c.store.setAsideDamaged(); err != nil {
			return false, err
		}
		c.damaged = false
	}
	return c.store.begin()
}

// commitChanges starts a commit of changed flags and stamps, if this process can become the writer at once. If not, the
// next commit brings them along.
func (c *Cache) commitChanges() {
	if c.store == nil || c.blocked != "" || c.damaged || c.compacting || c.store.foreign != nil {
		return
	}
	if ok, err := c.tryBegin(); err != nil || !ok {
		c.note(err)
		return
	}
	c.startCommit()
}

// Save waits until everything packed by finalized sessions is on stable storage. It returns the error that kept it from
// getting there; what was packed stays usable in this process, and the next commit tries again.
func (c *Cache) Save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return fmt.Errorf("cache %s: %w", c.path, ErrClosed)
	}
	return c.save()
}

func (c *Cache) save() error {
	c.commitErr = nil
	c.startCommit()
	for c.committing || c.compacting {
		c.idle.Wait()
	}
	return c.commitErr
}

// Close saves and gives up the cache; the last Close of a path unmaps it. It returns ErrInUse, and leaves the cache
// open, while sessions are open: their runtimes use its memory. An error of saving is returned, but closes all the same.
func (c *Cache) Close() error {
	err := c.close()
	registry.Lock()
	defer registry.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && registry.caches[c.path] == c {
		delete(registry.caches, c.path)
	}
	return err
}

func (c *Cache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return fmt.Errorf("cache %s: %w", c.path, ErrClosed)
	case c.openings > 1:
		c.openings--
		return c.save()
	case c.sessions > 0:
		return fmt.Errorf("cache %s: %d %w", c.path, c.sessions, ErrInUse)
	}
	c.closing = true // no session can begin any more
	errs := []error{c.save()}
	c.describeFile()
	for _, entries := range c.live {
		for _, e := range entries {
			errs = append(errs, e.region.release())
		}
	}
	c.live, c.fresh, c.seeds = nil, nil, nil
	errs = append(errs, c.arena.drop())
	if c.store != nil {
		errs = append(errs, c.store.close())
	}
	c.closed = true
	c.idle.Broadcast()
	return errors.Join(errs...)
}

// Stats returns what the cache has done so far, and what its file is like.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.describeFile()
	s := c.stats
	s.Private = map[Reason]Count{}
	for reason, count := range c.stats.Private {
		s.Private[reason] = count
	}
	return s
}

// describeFile brings the figures of the file up to date, for as long as it is open.
func (c *Cache) describeFile() {
	if c.store == nil || c.closed {
		return
	}
	slot := c.store.slot
	c.stats.Generation, c.stats.Entries = slot.Generation, int(slot.Records)
	c.stats.FileBytes, c.stats.PayloadBytes, c.stats.DeadBytes = int64(slot.End), int64(slot.PayloadBytes), int64(slot.DeadBytes)
}
