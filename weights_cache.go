package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/digest"
	"xpwc/internal/events"
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
	log      *events.Log // of this handle
	progress func(Progress)
	done     atomic.Bool // closed
}

// A core is what all handles of one place share.
type core struct {
	writer  *writer.Writer
	place   place
	options Options
	events  events.Logs  // of all handles
	arena   *store.Arena // of packed weights in private memory

	unusable   error       // why the cache is in memory and not in its file, or nil
	overflowed atomic.Bool // that MaxBytes is too small was reported

	mu             sync.Mutex // guards the fields below; nothing else is locked while it is held
	loads          map[LoadOutcome]Durations
	reasons        map[Reason]Count // without private memory, which the writer counts
	sourcesChanged int64
}

// A place is where a cache is: a file, or a section of one.
type place struct {
	path         string   // absolute; "" for a cache in memory
	offset, size int64    // of the section; without a size it is the file
	descriptor   *os.File // what OpenFile was given, with a name for a path: no two are one place
}

// close closes the descriptor, if there is one.
func (p place) close() error {
	if p.descriptor == nil {
		return nil
	}
	return p.descriptor.Close()
}

// A coreSlot has the core of one place, which its handles share.
type coreSlot struct {
	mu   sync.Mutex // while a handle is opened: others of this place wait
	core atomic.Pointer[core]
}

// coreSlots has a slot for each place that this process has opened, some bytes each.
var coreSlots sync.Map

// Open opens the cache file at path, which need not exist: it is created, for its owner only, when the first weights
// are packed. Its directory must exist. An empty path gives a cache in memory.
//
// Each call returns a handle of its own, to be closed by itself. Handles of one path in one process share what is
// mapped and packed, and one writer: their options must be the same, ErrOtherOptions if not, except Logger and
// Progress, which are each handle's own.
//
// Errors: ErrOptions, ErrOtherXNNPACK, ErrNotCache for a directory or a file that is something else, ErrUnsafeFile,
// with Options.Strict also ErrDamaged, ErrForeign and ErrVersion, and those of the system; with Options.OrMemory only
// ErrOptions, ErrOtherOptions and ErrOtherXNNPACK. A file or directory that cannot be written to is no error: what must
// be packed goes into private memory then, and Stats counts it. With too few file descriptors left for Go's network
// poller, which a first opening starts if the process has not, the error matches syscall.EMFILE; the runtime would end
// the process.
func Open(path string, options *Options) (*Cache, error) {
	o := options.withDefaults()
	if path == "" {
		return newHandle(place{}, o, nil, nil)
	}
	resolved, unusable := canonical(path, o.AllowUnsafeFile)
	if unusable != nil {
		unusable = fmt.Errorf("open cache: %w", unusable)
		var err error
		if resolved, err = filepath.Abs(path); err != nil || !o.OrMemory {
			return nil, unusable
		}
	}
	return openPlace(place{path: resolved}, o, osdisk.Files{Insecure: o.AllowUnsafeFile}, unusable)
}

// newHandle makes a core and its first handle. unusable is why its file cannot be used, if that is known, or nil.
func newHandle(p place, o Options, f store.Files, unusable error) (*Cache, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := ask.CheckXNNPACK(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := fd.StartPoller(); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	c := &core{place: p, options: o, arena: newArena(), reasons: map[Reason]Count{}, loads: map[LoadOutcome]Durations{
		LoadMapped: newDurations(), LoadPacked: newDurations(), LoadFailed: newDurations(),
	}}
	c.events.Cache = c.name()
	log := c.events.Open(o.Logger)
	settings := writer.Options{
		Path:     p.path,
		ReadOnly: o.ReadOnly, Strict: o.Strict, MaxBytes: o.MaxBytes, Wait: o.WriterWait,
		Verify: o.Verify == VerifyInBackground,
		Report: c.events.Add,
	}
	if o.Prefetch {
		settings.Readers = 4 // so many keep a disk busy
	}
	err := unusable
	if err == nil {
		c.writer, err = writer.New(f, settings)
	}
	if err != nil && o.OrMemory {
		c.unusable = err
		c.events.Add(slog.LevelWarn, "the cache file cannot be used; packing into memory", slog.Any("error", err))
		c.writer, err = writer.New(nil, settings)
	}
	if err != nil {
		return nil, err
	}
	c.prefetchLayout()
	handle, _ := c.writer.Open(nil)
	return &Cache{core: c, handle: handle, log: log, progress: o.Progress}, nil
}

// name is what error messages call the cache.
func (c *core) name() string { return cmp.Or(c.place.path, "in memory") }

// inMemory reports whether the cache has no file, or cannot use it.
func (c *core) inMemory() bool { return c.place.path == "" || c.unusable != nil }

// openPlace opens one more handle of a place, or its first.
func openPlace(p place, o Options, f store.Files, unusable error) (*Cache, error) {
	value, _ := coreSlots.LoadOrStore(p, &coreSlot{})
	slot := value.(*coreSlot)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if open := slot.core.Load(); open != nil {
		if c, err := open.addHandle(o); c != nil || err != nil {
			return c, err
		}
	}
	first, err := newHandle(p, o, f, unusable)
	if err == nil {
		slot.core.Store(first.core)
	}
	return first, err
}

// addHandle makes one more handle of a core. If the core is being closed, it waits for that, and returns none.
func (c *core) addHandle(o Options) (*Cache, error) {
	var refusal error
	switch {
	case !c.options.compatible(o):
		refusal = fmt.Errorf("cache %s: %w", c.place.path, ErrOtherOptions)
	case !o.OrMemory:
		refusal = c.unusable
	}
	handle, err := c.writer.Open(refusal)
	if handle == nil {
		return nil, err
	}
	return &Cache{core: c, handle: handle, log: c.events.Open(o.Logger), progress: o.Progress}, nil
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
// that prevented it, once. If a flush failed, what was packed is lost, as Session.Err reports: nothing is
// tried again, and the file is set aside. If there was no room for the file's index, what was packed stays usable, and
// the next Save commits it. If the directory of a new file cannot be flushed, as one that the process may not read, a
// power failure may remove the file: that error is in Stats.LastError.
func (c *Cache) Save() error {
	if err := c.checkOpen("save"); err != nil {
		return err
	}
	return c.handle.Save()
}

// checkOpen returns an error that matches ErrClosed for a handle that is closed.
func (c *Cache) checkOpen(op string) error {
	if c.done.Load() {
		return fmt.Errorf("%s: cache %s: %w", op, c.name(), ErrClosed)
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
	c.log.Close()
	if last {
		if value, present := coreSlots.Load(c.place); present {
			value.(*coreSlot).core.CompareAndSwap(c.core, nil)
		}
		err = errors.Join(err, c.arena.Drop(), c.place.close())
	}
	return err
}

// Compact rewrites the file without its dead bytes, and without payloads whose checksum is wrong. The new file takes
// the old one's place by a rename: other processes keep what they have mapped, and find the new file with their next
// session. It waits for sessions of this process that are packing, and for another process that is, up to
// Options.WriterWait; ErrBusy after that. The cache does it by itself when a quarter of the file is dead
// or stored twice.
func (c *Cache) Compact() error {
	if err := c.checkOpen("compact"); err != nil {
		return err
	}
	return c.writer.Compact(nil)
}

// PruneOptions select the entries that [Cache.Prune] keeps.
type PruneOptions struct {
	// KeepLayouts has the fingerprints of the layouts whose entries stay; empty for all. See CurrentLayout.
	KeepLayouts []Digest
	// KeepSources has the sources whose entries stay, as in Identity.Source; a file is its absolute path, or the
	// last part of it, for all of that name. Of entries whose source is not known, such as a registry's before their
	// first use, those stay that have such a name or none. Empty for all.
	KeepSources []string
	// MaxBytes is the size that the file is brought down to, by dropping the entries used longest ago; 0 for no limit.
	// An index takes a few hundred bytes for each entry, and counts.
	MaxBytes int64
}

// Prune compacts the file to the entries that are to be kept. It waits, and fails, like Compact.
// Sessions that use others keep their memory, and what was dropped is packed again when it is asked for.
func (c *Cache) Prune(o PruneOptions) error {
	if err := c.checkOpen("prune"); err != nil {
		return err
	}
	if o.MaxBytes < 0 {
		return fmt.Errorf("prune: %w: MaxBytes is %d; 0 is no limit", ErrOptions, o.MaxBytes)
	}
	keeps := keepSources(o.KeepSources)
	return c.writer.Compact(func(records []format.Record) []format.Record {
		// First, since entries that go for their layout or source make room for others.
		records = slices.DeleteFunc(records, func(r format.Record) bool {
			return len(o.KeepLayouts) > 0 && !slices.Contains(o.KeepLayouts, r.Layout) ||
				len(o.KeepSources) > 0 && !keeps(&r)
		})
		return writer.UsedLast(records, o.MaxBytes, time.Now().Unix())
	})
}

// keepSources returns whether a record is of one of these sources, as far as is known.
func keepSources(sources []string) func(*format.Record) bool {
	var digests []Digest
	names, baseNames := []string{""}, []string{} // baseNames match files in any directory
	for _, source := range sources {
		digests = append(digests, digest.OfStrings(source))
		name := sourceName(source)
		names = append(names, name)
		if name != "" && source == filepath.Base(source) {
			baseNames = append(baseNames, name)
		}
	}
	return func(r *format.Record) bool {
		if r.Source == (Digest{}) {
			return slices.Contains(names, r.SourceName)
		}
		return slices.Contains(digests, r.Source) || slices.Contains(baseNames, r.SourceName)
	}
}

// Trim has a cache without a file forget the packed weights that no session uses, and gives their memory back. One with
// a file has no such memory: its pages stay in the file, and in the system's page cache. The error matches ErrClosed.
func (c *Cache) Trim() error {
	if err := c.checkOpen("trim"); err != nil {
		return err
	}
	if !c.inMemory() {
		return nil
	}
	c.writer.Forget()
	return c.arena.Drop()
}

// Names returns the sorted names of the packed weights in the cache that XNNPACK could use on this machine, each the
// weights' name directly followed by the bias' name. Variants of one name are one.
func (c *Cache) Names() []string {
	layout, _ := ask.Layout()
	names := c.writer.Names(layout.Fingerprint)
	slices.Sort(names)
	return slices.Compact(names)
}

// Options of a [Cache]; nil and the zero value mean the defaults.
type Options struct {
	// ReadOnly: use what is in the file, never write to it. What is not there is packed into private memory. A file
	// without write bits is read-only for every user, root too.
	ReadOnly bool

	// Strict: a damaged file is an error that matches ErrDamaged, of Open, NewSession or Finalize. By default it is
	// renamed to NAME.damaged when there is something to write, and packed afresh; Stats.Damaged has the error.
	Strict bool

	// AllowUnsafeFile: open the file even if it belongs to another user, or others may write to it, or to the
	// directory of a symbolic link that leads to it.
	AllowUnsafeFile bool

	// OrMemory: a file that Open cannot use is no error. The cache is in memory instead, which its handles share, until
	// the last of them is closed. Stats.Unusable has the error, and Options.Logger is given it.
	OrMemory bool

	// WriterWait is how long a session that must pack waits for another process that is packing into the same file,
	// before it packs into private memory; and for another session of this process that is packing the same entry,
	// before it packs it, too. 0 means 10 seconds; a negative value does not wait.
	WriterWait time.Duration

	// Prefetch reads the whole file into memory when it is opened, so that bytes the disk cannot give are found then,
	// and counted as damage, instead of ending the process with a signal when they are touched.
	Prefetch bool

	// Verify is how far the file's payloads are checked.
	Verify Verify

	// MaxBytes is the size that the file is kept to, by dropping the entries used longest ago: 0 for no limit. It may
	// be exceeded while a commit is written. If what sessions use at the same time is larger, each start packs some of
	// it again: Options.Logger is given that once.
	MaxBytes int64

	// Progress, if not nil, is given each entry that was packed, on the thread that creates the runtime. It must not
	// call the cache or the session.
	Progress func(Progress)

	// Logger, if not nil, is given what an operator may want to know: a file that is damaged, set aside, cannot be
	// used, or was replaced by another process; a MaxBytes that is too small; waiting for another process that packs;
	// why a load took longer than mapping, once a load for each Reason; a file that grows at each start while nothing
	// is found in it; a damaged payload, and how many sessions use it; a source that changed while it was packed;
	// packed weights that the disk lost; commits, with their generation, entries, bytes and duration; compactions. What
	// does no harm is at slog.LevelInfo, the rest at slog.LevelWarn. The path is the attribute cache. Look-ups that hit
	// cost nothing.
	//
	// The handler is called from a goroutine of its own that holds no lock, one event after the other, so that it may
	// use the cache, but must not close it: Close waits for events to be handled. Handles of a cache may have different
	// loggers: why a load took longer than mapping goes to its handle's, all else to each logger once.
	Logger *slog.Logger
}

// Verify is how far the packed weights in the file are checked. Whatever it is, all of the file's structure is
// checked with its checksums before it is used, when the file is opened or, of a file of many thousand entries, when
// a look-up reads it, and whatever packing compares is compared to the byte.
type Verify int

const (
	// VerifyInBackground (the default) checks the checksum of each payload that a session uses once in this process,
	// some time after Session.Finalize, by a goroutine that rests nine tenths of its time. It reads the file, and
	// maps nothing. A runtime may have computed with a damaged one by then: Stats.DamagedPayloads and Options.Logger
	// report it, the next session packs it afresh, and the file is rid of it. Stats.Unverified has what is yet to be
	// checked.
	VerifyInBackground Verify = iota
	// VerifyOnUse checks a payload's checksum when it is found first in this process. A damaged one is packed afresh.
	VerifyOnUse
	// VerifyStructure does not read payloads.
	VerifyStructure
)

// Progress is about one entry that was packed while a runtime is created.
type Progress struct {
	// Name of the entry: the weights' name directly followed by the bias' name; empty for unnamed weights.
	Name string
	// Bytes packed for this entry.
	Bytes int64
	// Done and Total count bytes of the session's unpacked tensors, without those loaded with Retain. Done has tensors
	// that were packed or found in the cache, Total all that were loaded. It is complete once all were loaded.
	// What XNNPACK packs without naming it, as the bias of operators with dynamically quantised input, is never Done.
	Done, Total int64
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.WriterWait == 0 {
		v.WriterWait = 10 * time.Second
	}
	return v
}

// check returns an error that matches ErrOptions for an impossible value.
func (o *Options) check() error {
	switch {
	case o.MaxBytes < 0:
		return fmt.Errorf("%w: MaxBytes is %d; 0 is no limit", ErrOptions, o.MaxBytes)
	case o.Verify < VerifyInBackground || o.Verify > VerifyStructure:
		return fmt.Errorf("%w: Verify is %d, none of the constants", ErrOptions, o.Verify)
	}
	return nil
}

// compatible reports whether two handles of one path can share a core: the function and the logger are each handle's
// own.
func (o Options) compatible(p Options) bool {
	return o.Prefetch == p.Prefetch && o.Verify == p.Verify && o.MaxBytes == p.MaxBytes &&
		o.ReadOnly == p.ReadOnly && o.Strict == p.Strict && o.AllowUnsafeFile == p.AllowUnsafeFile &&
		o.WriterWait == p.WriterWait
}

// OpenFile opens the cache in an open file, for programs in a sandbox that are given a descriptor and can open no path.
// The file stays the caller's, who may close it as soon as OpenFile has returned. An empty file is a cache without
// entries.
//
// The cache writes to the file if that was opened for reading and writing and the system can open it once more, as
// Linux can where /proc is mounted: the writer's lock belongs to one opening of a file, and a descriptor that was
// handed over shares it. Otherwise it is as with Options.ReadOnly. Nothing is put in the file's place, whatever its
// name leads to: a damaged file, one of ExecuTorch, and one of an older format version stay as they are, and what they
// lack is packed into private memory; Compact and Prune return an error, so that dead bytes and Options.MaxBytes have
// no effect. When a flush of the file has failed, what was not committed is lost (ErrLost), but the file stays where it
// is. It is written to again after a minute, when the sessions that use what was packed into it are closed.
//
// Each call gives a cache of its own, also for a file that is open already: two of them are to each other as two
// processes. Cache.Path returns the name that f has for the file, or "a descriptor". Errors: those of Open.
func OpenFile(f *os.File, options *Options) (*Cache, error) {
	if f == nil {
		return nil, fmt.Errorf("open cache: no file: %w", os.ErrInvalid)
	}
	file, err := fd.Duplicate(f)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	name := cmp.Or(f.Name(), "a descriptor") // no path is a cache in memory
	o := options.withDefaults()
	files := osdisk.Descriptor{File: file, Name: name, Insecure: o.AllowUnsafeFile}
	c, err := newHandle(place{path: name, descriptor: file}, o, files, nil)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return c, nil
}

// OpenSection opens a cache that is part of another file, the size bytes at offset: a complete cache file, embedded for
// instance next to the weights that it was packed from, as in pull request 23069 of ONNX Runtime. It is mapped where it
// lies, so offset must be a multiple of the system's mapping granularity: ErrMisaligned if it is not; a multiple of
// 65,536 is one everywhere.
//
// A section is read-only, as with Options.ReadOnly: what is not in it is packed into private memory, and counted. All
// else is as for Open, the checks of the file's owner and mode too. Handles of one section share what is mapped.
//
// Errors: those of Open, ErrMisaligned, ErrDamaged if the file ends before the section does, fs.ErrNotExist.
func OpenSection(path string, offset, size int64, options *Options) (*Cache, error) {
	o := options.withDefaults()
	o.ReadOnly = true
	path, err := canonical(path, o.AllowUnsafeFile)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	files := osdisk.Files{Insecure: o.AllowUnsafeFile}
	whole, err := sizeOf(files, path)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	name := fmt.Sprintf("cache %s, %d bytes at %d", path, size, offset)
	switch granularity := int64(osdisk.Granularity()); {
	case offset < 0 || size <= 0 || size > math.MaxInt64-offset || offset+size > whole:
		return nil, fmt.Errorf("%s: the file has %d bytes: %w", name, whole, ErrDamaged)
	case offset%granularity != 0:
		return nil, fmt.Errorf("%s: this system maps files at multiples of %d bytes: %w",
			name, granularity, ErrMisaligned)
	}
	section := osdisk.Section{Files: files, Offset: offset, Size: size}
	return openPlace(place{path: path, offset: offset, size: size}, o, section, nil)
}

// sizeOf returns the size of a file that can be opened.
func sizeOf(files store.Files, path string) (int64, error) {
	d, err := files.Open(path, false)
	if err != nil {
		return 0, err
	}
	size, err := d.Size()
	return size, errors.Join(err, d.Close())
}
