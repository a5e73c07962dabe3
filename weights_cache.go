package xpwc

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"xpwc/internal/store"
	"xpwc/internal/trust"
)

// A Cache is a handle of the packed weights of one cache file, or of memory alone. All its methods may be called from
// several goroutines. Runtimes that are being executed never wait for it.
type Cache struct {
	*core
	events   *eventLog // of this handle
	progress func(Progress)
	done     atomic.Bool // closed
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
		return newHandle(place{}, o, nil)
	}
	path, err := canonical(path, o.AllowUnsafeFile)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	return openPlace(place{path: path}, o, osFiles{o.AllowUnsafeFile})
}

// newHandle makes a core and its first handle.
func newHandle(p place, o Options, f store.Files) (*Cache, error) {
	events := newEventLog(o.Logger)
	c, err := newCore(p, o, f, events)
	if err != nil {
		return nil, err
	}
	c.handles = 1
	return &Cache{core: c, events: events, progress: o.Progress}, nil
}

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
	return c.handle(o)
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
	return newHandle(p, o, f)
}

// handle makes one more handle of a core. If the core is being closed, it waits for that, and returns none.
func (c *core) handle(o Options) (*Cache, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		c.await(func() bool { return c.closed })
		c.forgetCore()
		return nil, nil
	case !c.options.same(o):
		return nil, fmt.Errorf("cache %s: %w", c.place.path, ErrOtherOptions)
	}
	c.handles++
	events := newEventLog(o.Logger)
	events.attach(c)
	return &Cache{core: c, events: events, progress: o.Progress}, nil
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.save()
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
	last, err := c.close()
	if errors.Is(err, ErrInUse) {
		return err
	}
	c.events.detach()
	c.events.wait()
	if last {
		c.forgetCore()
	}
	return err
}

// close gives up the handle, and reports whether it was the last one.
func (c *Cache) close() (last bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done.Load() {
		return false, nil
	}
	if n := c.openSessions(); n > 0 {
		return false, fmt.Errorf("cache %s: %d %w", c.name(), n, ErrInUse)
	}
	c.done.Store(true)
	c.handles--
	if c.handles > 0 {
		return false, c.save()
	}
	return true, c.core.close()
}

// openSessions returns how many sessions of this handle are open.
func (c *Cache) openSessions() (n int) {
	for s := range c.sessions {
		if s.cache == c {
			n++
		}
	}
	return n
}

// Stats returns what all handles of the cache have done so far, and what its file is like.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.describeFile()
	s := c.stats
	s.Unverified = c.verifier.unverified()
	s.Private = maps.Clone(c.stats.Private)
	s.Loads = maps.Clone(c.stats.Loads)
	return s
}
