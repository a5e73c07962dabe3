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
	closed   bool
	sessions int
	writers  int // sessions that pack into the file
	store    *store
	arena    arena
	blocked  Reason // why the file cannot be written to, or ""
	damaged  bool   // the file is to be set aside before anything is written

	live    map[format.Key][]*entry // what sessions use or used, and what was packed here
	unnamed map[Digest][]*entry     // by digest of the packed bytes
	seeds   map[seedKey]*entry      // other seeds under which this process packed an entry's very bytes
	fresh   []*entry                // packed here and not in the loaded index

	dirty      bool // an entry of the file changed its flags or stamps
	committing bool
	again      bool
	idle       *sync.Cond // committing became false
	commitErr  error      // of the last commit

	stats Stats
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
	registry.Lock()
	defer registry.Unlock()
	if c := registry.caches[path]; c != nil {
		if !c.options.same(o) {
			return nil, fmt.Errorf("cache %s: %w", path, ErrOtherOptions)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
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
	}
	c.idle = sync.NewCond(&c.mu)
	c.stats.Private = map[Reason]Count{}
	if path == "" {
		return c, nil
	}
	c.store = &store{
		path:       path,
		insecure:   o.AllowUnsafeFile,
		readOnly:   o.ReadOnly,
		openDisk:   openDisk,
		createDisk: createDisk,
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
		return err
	case errors.Is(err, ErrCorrupt):
		c.damaged, c.stats.Damaged = true, err
		if c.store.readOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case errors.Is(err, ErrForeign):
		c.blocked, c.stats.LastError = ReasonForeign, err
		return nil
	default:
		return err
	}
}

// refresh picks up a newer generation that another process committed.
func (c *Cache) refresh() error {
	if c.store == nil || c.damaged || c.blocked == ReasonForeign {
		return nil
	}
	before := c.store.index
	err := c.accept(c.store.refresh())
	if c.store.index != before {
		c.forgetLoaded()
	}
	return err
}

// forgetLoaded drops what was found through an index that is no longer the loaded one. Entries in use stay: their memory
// does not change.
func (c *Cache) forgetLoaded() {
	for key, entries := range c.live {
		kept := entries[:0]
		for _, e := range entries {
			if e.sessions > 0 || e.reason != "" || !e.committed && e.fresh {
				kept = append(kept, e)
				continue
			}
			c.note(e.region.release())
			c.forgetSeeds(e)
		}
		clear(entries[len(kept):])
		if len(kept) == 0 {
			delete(c.live, key)
		} else {
			c.live[key] = kept
		}
	}
	fresh := c.fresh[:0]
	for _, e := range c.fresh {
		if e.committed { // the new index has it
			e.fresh = false
			continue
		}
		fresh = append(fresh, e)
	}
	clear(c.fresh[len(fresh):])
	c.fresh = fresh
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
		for _, e := range c.live[key] {
			if !e.fresh && e.reason == "" && e.record.Offset == r.Offset {
				continue search
			}
		}
		all = append(all, &entry{
			record:    r,
			data:      c.store.base.data[r.Offset : r.Offset+r.Size : r.Offset+r.Size],
			region:    c.store.base,
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

// release ends a session's use of an entry. A private entry nobody uses is freed at once; others stay for the next
// session.
func (c *Cache) release(e *entry) {
	e.sessions--
	if e.sessions > 0 {
		return
	}
	if e.reason == "" {
		c.stats.MappedBytes -= int64(len(e.data))
		return
	}
	c.stats.PrivateBytes -= int64(len(e.data))
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
func (c *Cache) beginWriting() Reason {
	deadline := time.Now().Add(c.options.WriterWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if c.blocked != "" {
			return c.blocked
		}
		ok, err := c.tryBegin()
		switch {
		case errors.Is(err, errReplaced):
			err = c.accept(c.store.reopen())
			c.forgetLoaded()
			if err == nil {
				continue
			}
			fallthrough
		case err != nil:
			c.note(err)
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnlyFileSystem) {
				c.blocked = ReasonReadOnly
				return c.blocked
			}
			return ReasonDisk
		case ok:
			return ""
		}
		if time.Now().After(deadline) {
			return ReasonBusy
		}
		c.mu.Unlock()
		time.Sleep(pause)
		c.mu.Lock()
	}
}

func (c *Cache) tryBegin() (bool, error) {
	if c.damaged {
		if err := c.store.setAsideDamaged(); err != nil {
			return false, err
		}
		c.damaged = false
	}
	before := c.store.index
	ok, err := c.store.begin()
	if c.store.index != before {
		c.forgetLoaded()
	}
	return ok, err
}

// commitChanges starts a commit of changed flags and stamps, if this process can become the writer at once. If not, the
// next commit brings them along.
func (c *Cache) commitChanges() {
	if c.store == nil || c.blocked != "" || c.damaged {
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
	if c.closed {
		return fmt.Errorf("cache %s: %w", c.path, ErrClosed)
	}
	return c.save()
}

func (c *Cache) save() error {
	c.commitErr = nil
	c.startCommit()
	for c.committing {
		c.idle.Wait()
	}
	return c.commitErr
}

// Close saves and gives up the cache; the last Close of a path unmaps it. It returns ErrInUse, and leaves the cache
// open, while sessions are open: their runtimes use its memory. An error of saving is returned, but closes all the same.
func (c *Cache) Close() error {
	registry.Lock()
	defer registry.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("cache %s: %w", c.path, ErrClosed)
	}
	if c.openings > 1 {
		c.openings--
		return c.save()
	}
	if c.sessions > 0 {
		return fmt.Errorf("cache %s: %d %w", c.path, c.sessions, ErrInUse)
	}
	errs := []error{c.save()}
	c.closed = true
	for _, entries := range c.live {
		for _, e := range entries {
			errs = append(errs, e.region.release())
		}
	}
	c.live, c.fresh, c.seeds = nil, nil, nil
	errs = append(errs, c.arena.drop())
	if c.store != nil {
		errs = append(errs, c.store.close())
		delete(registry.caches, c.path)
	}
	return errors.Join(errs...)
}

// Stats returns what the cache has done so far, and what its file is like.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Private = map[Reason]Count{}
	for reason, count := range c.stats.Private {
		s.Private[reason] = count
	}
	if c.store != nil && c.store.slot.Generation > 0 {
		slot := c.store.slot
		s.Generation, s.Entries = slot.Generation, int(slot.Records)
		s.FileBytes, s.PayloadBytes, s.DeadBytes = int64(slot.End), int64(slot.PayloadBytes), int64(slot.DeadBytes)
	}
	return s
}
