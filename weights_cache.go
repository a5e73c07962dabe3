package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"xpwc/internal/fd"
	"xpwc/internal/format"
)

// A Cache holds the packed weights of one cache file, or of memory alone. All its methods may be called from several
// goroutines. Runtimes that are being executed never wait for it.
type Cache struct {
	place   place
	options Options

	mu       sync.Mutex
	openings int
	closing  bool
	closed   bool
	sessions map[*Session]bool // that are open
	usual    int               // how many tensors a session loads, as far as is known
	writers  int               // sessions that pack into the file
	store    *store
	arena    arena
	blocked  Reason // why the file cannot be written to, or ""
	damaged  bool   // the file is to be set aside before anything is written

	live    map[string]*family  // by the kernel's name: what sessions use or used, and what was packed here
	unnamed map[Digest][]*entry // by digest of the packed bytes
	known   loadedIndex         // what live was found through
	seeds   map[seedKey]*entry  // other seeds under which this process packed an entry's very bytes
	fresh   []*entry            // packed here and not in the loaded index

	bad        map[uint64]bool // offsets of payloads of the loaded file that turned out damaged
	dirty      bool            // an entry of the file changed its flags or stamps, or is bad
	soon       *time.Timer     // starts a commit, or nil
	retry      backOff         // of commits that failed
	busyUntil  time.Time       // until then nobody waits for another process
	committing bool
	flushing   bool     // a commit is on its way to the disk
	handedIn   []*entry // meanwhile, in file space
	compacting bool
	again      bool
	idle       *sync.Cond // a commit, a compaction or a session's packing ended
	commitErr  error      // of the last commit
	lost       error      // something packed is in a file that is no longer in place; Save tells once
	verifier   verifier

	stats  Stats
	events *eventLog
	now    func() int64 // seconds since 1970
}

type seedKey struct {
	format.Key
	seed uint32
}

// A place is where a cache is: a file, or a section of one.
type place struct {
	path         string // absolute; "" for a cache in memory
	offset, size int64  // of the section; without a size it is the file
}

var registry = struct {
	sync.Mutex
	caches map[place]*Cache
}{caches: map[place]*Cache{}}

// Open opens the cache file at path, which need not exist: it is created, for its owner only, when the first weights
// are packed. Its directory must exist. An empty path gives a cache in memory. Opening a path that is open in this
// process gives the same Cache, which must be closed as often; ErrOtherOptions if the options differ.
//
// Errors: ErrNotCache for a directory or a file that is something else, ErrUnsafeFile, with Options.Strict also
// ErrDamaged, ErrForeign and ErrVersion, and those of the system. A file or directory that cannot be written to is no
// error: what must be packed goes into private memory then, and Stats says so. With too few file descriptors left for
// Go's network poller, which a first opening starts if the process has not, the error matches syscall.EMFILE; the
// runtime would end the process.
func Open(path string, options *Options) (*Cache, error) {
	o := options.withDefaults()
	if path == "" {
		return newCache(place{}, o)
	}
	path, err := canonical(path)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	return openPlace(place{path: path}, o)
}

func openPlace(p place, o Options) (*Cache, error) {
	for {
		c, err := openOnce(p, o)
		if c != nil || err != nil {
			return c, err
		}
	}
}

// openOnce finds the open cache of a place or makes one. It returns neither when one was just being closed.
func openOnce(p place, o Options) (*Cache, error) {
	registry.Lock()
	defer registry.Unlock()
	if c := registry.caches[p]; c != nil {
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
			if registry.caches[p] == c {
				delete(registry.caches, p)
			}
			return nil, nil
		case !c.options.same(o):
			return nil, fmt.Errorf("cache %s: %w", p.path, ErrOtherOptions)
		}
		c.openings++
		return c, nil
	}
	c, err := newCache(p, o)
	if err != nil {
		return nil, err
	}
	registry.caches[p] = c
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

func newCache(p place, o Options) (*Cache, error) {
	if err := fd.StartPoller(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	// It takes XNNPACK half a millisecond to show how it packs, which a host spends on its subgraph meanwhile.
	go func() { _, _ = currentLayout() }()
	c := &Cache{
		place:    p,
		options:  o,
		openings: 1,
		live:     map[string]*family{},
		unnamed:  map[Digest][]*entry{},
		sessions: map[*Session]bool{},
		seeds:    map[seedKey]*entry{},
		bad:      map[uint64]bool{},
		now:      func() int64 { return time.Now().Unix() },
	}
	c.idle = sync.NewCond(&c.mu)
	c.verifier.pause = verifyPause
	c.events = newEventLog(c)
	c.stats.Private = map[Reason]Count{}
	if p.path == "" {
		return c, nil
	}
	c.store = &store{
		path:      p.path,
		insecure:  o.AllowUnsafeFile,
		readOnly:  o.ReadOnly,
		fetchAll:  o.Prefetch,
		files:     osFiles{},
		condemned: condemnedHere,
	}
	if p.size > 0 {
		c.store.files = sectionFiles{p.offset, p.size}
	}
	if err := c.accept(c.store.load()); err != nil {
		return nil, err
	}
	c.noticeReload()
	if c.store.index != nil {
		c.usual = min(c.store.index.Len(), manyEntries/8)
	}
	return c, nil
}

// accept turns what loading the file found into what it means for the cache; the error is one for the caller of Open.
func (c *Cache) accept(err error) error {
	for _, gone := range []error{ErrDamaged, ErrForeign, ErrVersion, ErrNotCache} {
		if errors.Is(err, gone) { // what was mapped may be cut off or written over
			c.distrust()
			break
		}
	}
	switch {
	case err == nil:
		if c.blocked == ReasonVersion {
			c.blocked = ""
		}
		if c.store.readOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case c.options.Strict:
		return errors.Join(err, c.store.close())
	case errors.Is(err, ErrDamaged):
		if known := c.stats.Damaged; known == nil || known.Error() != err.Error() {
			c.events.add(slog.LevelWarn, "cache file is damaged", slog.Any("error", err))
		}
		c.damaged, c.stats.Damaged = true, err
		if c.store.readOnly {
			c.blocked = ReasonReadOnly
		}
		return nil
	case errors.Is(err, ErrVersion) && c.store.foreign == nil: // a newer one, of programs that are to go on with it
		if c.blocked != ReasonVersion {
			c.events.add(slog.LevelWarn, "cache file of a newer format version is left alone", slog.Any("error", err))
		}
		c.damaged, c.blocked = false, ReasonVersion
		c.note(err)
		return nil
	case errors.Is(err, ErrForeign), errors.Is(err, ErrVersion):
		c.damaged = false
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
	if c.store == nil || c.damaged && !c.store.readOnly {
		return nil // it is set aside with the first miss
	}
	c.damaged = false // or somebody else has
	defer c.noticeReload()
	was := c.store.id
	err := c.store.refresh()
	if err == nil {
		c.noticeReplacement(was)
	}
	return c.accept(err)
}

// Path returns the absolute path of the cache file, or of the file that it is a section of; "" for a cache in memory.
func (c *Cache) Path() string { return c.place.path }

// name is what error messages call the cache.
func (c *Cache) name() string {
	if c.place.path == "" {
		return "in memory"
	}
	return c.place.path
}

// note keeps an error that changes nothing for the caller for Stats to tell.
func (c *Cache) note(err error) {
	if err != nil {
		c.stats.LastError = err
	}
}

// Save waits until everything packed by finalized sessions is on stable storage. It returns the error that kept it
// from getting there. What was packed then stays usable in this process, in private memory, but for what Session.Err
// reports; the next Save tries again, and so does the cache by itself, from time to time. ErrBusy: another process is
// writing.
func (c *Cache) Save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return fmt.Errorf("cache %s: %w", c.name(), ErrClosed)
	}
	return c.save()
}

func (c *Cache) save() error {
	c.commitErr = nil
	c.startCommit()
	for c.committing || c.compacting {
		c.idle.Wait()
	}
	err := cmp.Or(c.commitErr, c.lost)
	c.lost = nil
	return err
}

// Close saves and gives up the cache; the last Close of a path unmaps it. It returns ErrInUse, and leaves the cache
// open, while sessions are open: their runtimes use its memory. An error of saving is returned, but closes all the
// same.
func (c *Cache) Close() error {
	err := c.close()
	c.events.wait()
	registry.Lock()
	defer registry.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && registry.caches[c.place] == c {
		delete(registry.caches, c.place)
	}
	return err
}

func (c *Cache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return fmt.Errorf("cache %s: %w", c.name(), ErrClosed)
	case c.openings > 1:
		c.openings--
		return c.save()
	case len(c.sessions) > 0:
		return fmt.Errorf("cache %s: %d %w", c.name(), len(c.sessions), ErrInUse)
	}
	c.closing = true // no session can begin any more
	c.retry.stop()
	errs := []error{c.save()}
	c.stopVerifier()
	c.describeFile()
	for _, f := range c.live {
		for _, e := range f.entries {
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
	s.Unverified = c.verifier.unverified()
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
	c.stats.Pending = Count{}
	for _, e := range c.fresh {
		if e.pending() {
			c.stats.Pending.add(len(e.data))
		}
	}
	slot := c.store.slot
	c.stats.Generation, c.stats.Entries = slot.Generation, int(slot.Records)
	c.stats.FileBytes, c.stats.PayloadBytes, c.stats.DeadBytes = int64(slot.End), int64(slot.PayloadBytes), int64(slot.DeadBytes)
}
