package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/fd"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/trust"
	"xpwc/internal/writer"
)

// A Cache is a handle of the packed weights of one cache file, or of memory alone. All its methods may be called from
// several goroutines. Runtimes that are being executed never wait for it.
type Cache struct {
	*core
	handle   *writer.Handle
	events   *eventLog // of this handle
	progress func(Progress)
	done     atomic.Bool // closed
}

// A core is what all handles of one place share.
type core struct {
	writer  *writer.Writer
	place   place
	options Options
	events  eventLogs // of all handles
	arena   arena

	mu             sync.Mutex // of what follows; nothing else is locked while it is held
	loads          map[LoadOutcome]Durations
	sourcesChanged int64
	expected       int // tensors that a session loads, going by the last one
	index          *format.Index
	evidence       evidence // what the index says of layouts
}

// A place is where a cache is: a file, or a section of one.
type place struct {
	path         string // absolute; "" for a cache in memory
	offset, size int64  // of the section; without a size it is the file
}

// cores are those of this process that have a handle. No disk is asked while it is locked.
var cores = struct {
	sync.Mutex
	at     map[place]*core
	making map[place]chan struct{} // closed when the core is made, or could not be
}{at: map[place]*core{}, making: map[place]chan struct{}{}}

// Open opens the cache file at path, which need not exist: it is created, for its owner only, when the first weights
// are packed. Its directory must exist. An empty path gives a cache in memory.
//
// Each call returns a handle of its own, to be closed by itself. Handles of one path in one process share what is
// mapped and packed, and one writer: their options must be the same, ErrOtherOptions if not, but for Logger and
// Progress, which are each handle's own.
//
// Errors: ErrNotCache for a directory or a file that is something else, ErrUnsafeFile, with Options.Strict also
// ErrDamaged, ErrForeign and ErrVersion, and those of the system. A file or directory that cannot be written to is no
// error: what must be packed goes into private memory then, and Stats says so. With too few file descriptors left for
// Go's network poller, which a first opening starts if the process has not, the error matches syscall.EMFILE; the
// runtime would end the process.
func Open(path string, options *Options) (*Cache, error) {
	o := options.withDefaults()
	if path == "" {
		return newHandle(place{}, o, nil, nil)
	}
	path, err := canonical(path, o.AllowUnsafeFile)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	return openPlace(place{path: path}, o, osdisk.Files{Insecure: o.AllowUnsafeFile})
}

// newHandle makes a core and its first handle. also is given up with the core; it may be nil.
func newHandle(p place, o Options, f store.Files, also func() error) (*Cache, error) {
	if err := fd.StartPoller(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	c := &core{place: p, options: o, loads: map[LoadOutcome]Durations{}}
	events := newEventLog(o.Logger)
	events.attach(c)
	var err error
	c.writer, err = writer.New(f, writer.Options{
		Path:     p.path,
		ReadOnly: o.ReadOnly, Strict: o.Strict, MaxBytes: o.MaxBytes, Wait: o.WriterWait,
		Repack: o.Verify == VerifyRepack, Background: o.Verify == VerifyInBackground,
		Store:    store.Options{Prefetch: o.Prefetch, Early: o.WriteEarly},
		Describe: layoutsOf,
		Prepare:  func() { _, _ = ask.Layout() }, // to ask takes a millisecond or two
		Report:   c.events.add,
		Close: func() error {
			err := c.arena.drop()
			if also != nil {
				err = errors.Join(err, also())
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	if index := c.writer.Index(); index != nil {
		c.expected = min(index.Len(), mostExpected)
	}
	c.askForLayout()
	handle, _ := c.writer.Open()
	return &Cache{core: c, handle: handle, events: events, progress: o.Progress}, nil
}

// mostExpected is as many tensors as a session has room for when it begins.
const mostExpected = 1024

// name is what error messages call the cache.
func (c *core) name() string {
	if c.place.path == "" {
		return "in memory"
	}
	return c.place.path
}

// inMemory reports whether the cache has no file.
func (c *core) inMemory() bool { return c.place.path == "" }

func openPlace(p place, o Options, f store.Files) (*Cache, error) {
	for {
		c, err := openOnce(p, o, f)
		if c != nil || err != nil {
			return c, err
		}
	}
}

// openOnce finds the core of a place or makes one. It returns neither a handle nor an error when the core was just
// being made, or closed.
func openOnce(p place, o Options, f store.Files) (*Cache, error) {
	cores.Lock()
	c, making := cores.at[p], cores.making[p]
	if c == nil && making == nil {
		cores.making[p] = make(chan struct{})
	}
	cores.Unlock()
	switch {
	case making != nil:
		<-making
		return nil, nil
	case c == nil:
		return makeCore(p, o, f)
	}
	return c.another(o)
}

func makeCore(p place, o Options, f store.Files) (first *Cache, err error) {
	defer func() {
		cores.Lock()
		defer cores.Unlock()
		if first != nil {
			cores.at[p] = first.core
		}
		close(cores.making[p])
		delete(cores.making, p)
	}()
	return newHandle(p, o, f, nil)
}

// another makes one more handle of a core. If the core is being closed, it waits for that, and returns none.
func (c *core) another(o Options) (*Cache, error) {
	if !c.options.same(o) {
		return nil, fmt.Errorf("cache %s: %w", c.place.path, ErrOtherOptions)
	}
	handle, ok := c.writer.Open()
	if !ok {
		c.forgetCore()
		return nil, nil
	}
	events := newEventLog(o.Logger)
	events.attach(c)
	return &Cache{core: c, handle: handle, events: events, progress: o.Progress}, nil
}

// forgetCore has the next handle of the place get another core.
func (c *core) forgetCore() {
	cores.Lock()
	defer cores.Unlock()
	if cores.at[c.place] == c {
		delete(cores.at, c.place)
	}
}

// canonical makes the path of one file the same however it is written. A final symbolic link is followed if that is
// safe, and kept if insecure is set, when it is followed each time the file is opened.
func canonical(path string, insecure bool) (string, error) {
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
	path = filepath.Join(dir, filepath.Base(path))
	if insecure {
		return path, nil
	}
	return trust.Follow(path)
}

// Path returns the absolute path of the cache file, or of the file that it is a section of; "" for a cache in memory.
func (c *Cache) Path() string { return c.place.path }

// Save waits until everything packed by finalized sessions, of all handles, is on stable storage. It returns the error
// that kept it from getting there, once. If a flush failed, what was packed is lost, as Session.Err reports: nothing is
// tried again, and the file is set aside. If there was no room for the file's index, what was packed stays usable, and
// the next Save has it committed.
func (c *Cache) Save() error {
	if err := c.checkOpen("save"); err != nil {
		return err
	}
	return c.handle.Save()
}

// checkOpen returns an error that matches ErrClosed for a handle that is closed.
func (c *Cache) checkOpen(what string) error {
	if c.done.Load() {
		return fmt.Errorf("%s: cache %s: %w", what, c.name(), ErrClosed)
	}
	return nil
}

// Close saves and gives up the handle; the last handle's Close unmaps the file. Close waits until the handle's Logger
// has been given all events. It returns ErrInUse, and leaves the handle open, while sessions of it are open: their
// runtimes use its memory. An error of saving is returned, but closes all the same. Closing twice is harmless.
func (c *Cache) Close() error {
	last, err := c.handle.Close()
	if errors.Is(err, ErrInUse) {
		return err
	}
	c.done.Store(true)
	c.events.detach()
	c.events.wait()
	if last {
		c.forgetCore()
	}
	return err
}

// Compact rewrites the file without its dead bytes, and without payloads whose checksum is wrong. The new file takes
// the old one's place by a rename: other processes keep what they have mapped, and find the new file with their next
// session. It waits for sessions of this process that are packing, and for another process that is, up to
// Options.WriterWait; ErrBusy after that. The cache does it by itself when a quarter of the file is dead.
func (c *Cache) Compact() error {
	if err := c.checkOpen("compact"); err != nil {
		return err
	}
	return c.writer.Compact(nil)
}

// PruneOptions say what [Cache.Prune] keeps.
type PruneOptions struct {
	// KeepLayouts has the fingerprints of the layouts whose entries stay; empty for all. See CurrentLayout.
	KeepLayouts []Digest
	// MaxBytes is the size that the file is brought down to, by dropping the entries used longest ago; 0 for no limit.
	// An index takes a few hundred bytes for each entry, and counts.
	MaxBytes int64
}

// Prune compacts the file to the entries that are to be kept; see Compact for what it waits for, and its errors.
// Sessions that use others keep their memory, and what was dropped is packed again when it is asked for.
func (c *Cache) Prune(o PruneOptions) error {
	if err := c.checkOpen("prune"); err != nil {
		return err
	}
	return c.writer.Compact(func(records []format.Record) []format.Record {
		// What goes for its layout makes room for what stays, so this comes first.
		records = slices.DeleteFunc(records, func(r format.Record) bool {
			return len(o.KeepLayouts) > 0 && !slices.Contains(o.KeepLayouts, r.Layout)
		})
		return writer.UsedLast(records, o.MaxBytes, time.Now().Unix())
	})
}

// Trim gives back the memory of packed weights that no session uses. A cache without a file forgets them. One with a
// file maps it anew, if no session is open, so that its pages no longer count as this process's: they stay in the file,
// and in the system's page cache. Trim waits for a commit that is being written, or about to be. Errors: ErrClosed, and
// those of mapping.
func (c *Cache) Trim() error {
	if err := c.checkOpen("trim"); err != nil {
		return err
	}
	err := c.writer.Trim()
	if c.inMemory() && c.writer.Sessions() == 0 {
		err = errors.Join(err, c.arena.drop())
	}
	return err
}

// Names returns the sorted names of the packed weights in the cache that XNNPACK could use on this machine, each the
// weights' name directly followed by the bias' name. Variants of one name are one.
func (c *Cache) Names() []string {
	here, _ := ask.Layout()
	names := c.writer.Names(here.Fingerprint)
	slices.Sort(names)
	return slices.Compact(names)
}
