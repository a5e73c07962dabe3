package xpwc

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A Session spans one xnn_runtime_t: it begins before the runtime is created and is closed after the runtime is
// deleted. It gives out the unpacked tensors, serves XNNPACK's callbacks while the runtime is created, and keeps the
// packed weights in memory that the runtime uses. Sessions of one cache are independent of each other: runtimes may
// be created and executed in parallel.
type Session struct {
	cache    *Cache
	data     DataMap
	provider provider
	begun    time.Time

	mu        sync.Mutex
	finalized bool
	closed    bool
	err       error   // the first that a callback could not return
	remarks   []error // that did the runtime no harm, for Stats

	sources    map[string]*source
	newSources stock[source]
	kept       []*source           // until Close, of a session that is finalized
	loaded     int                 // sources that a finalized session had
	refused    map[string]error    // tensors that there was no memory for: the data map is asked once
	addresses  map[uintptr]*source // what XNNPACK knows a source by; also aliases
	computed   arena               // of tensors whose content is computed
	unfilled   []*source           // those whose content may yet have to be computed
	digests    sync.WaitGroup      // of digests that are computed while XNNPACK packs
	pins       sync.WaitGroup      // of others that read the session's tensors; added to with the cache's lock held

	here        format.Digest // fingerprint of this machine's layout
	layoutErr   error
	layoutKnown bool

	evidence      evidence // of the file's layouts, when the session began
	evidenceKnown bool     // it is of this machine

	asked       weight // what the callback that is being served names
	announced   *announcement
	packings    map[uintptr]space
	scratch     *store.Region // packing space for what is compared before it is kept
	busy        bool          // the scratch is being packed into
	used        []*entry      // once for each look-up and packing that gave it; guarded by the cache's lock
	lostWeights error         // the disk lost packed weights that the runtime uses; guarded by the cache's lock
	writing     bool          // this session keeps the process the file's writer
	noFile      Reason        // why this session packs into private memory, or ""

	reportedPrivate map[Reason]bool // to Options.Logger

	watches   map[Watch]*watch // of loaded tensors
	lastWatch *watch
	packed    bool         // XNNPACK packed something
	added     bool         // and the cache did not have all of that
	restamps  []restamping // for Finalize, which knows whether their sources changed

	lastOrigin *origin // most tensors have the same
	lastSource string  // its Identity.Source

	done, total int64 // Progress
}

// NewSession begins a session. data gives the unpacked tensors for Load and may be nil if Load is not called: then all
// weights are unnamed. What other processes committed to the file by now is picked up.
func (c *Cache) NewSession(data DataMap) (*Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkOpen("new session"); err != nil {
		return nil, err
	}
	if err := c.refresh(); err != nil {
		if c.options.Strict {
			return nil, fmt.Errorf("new session: %w", err)
		}
		c.note(err) // what is loaded serves on
	}
	s := &Session{
		cache:     c,
		data:      data,
		begun:     time.Now(),
		sources:   make(map[string]*source, c.tensorsExpected),
		addresses: make(map[uintptr]*source, c.tensorsExpected),
		used:      make([]*entry, 0, c.tensorsExpected),
		packings:  map[uintptr]space{},
		evidence:  c.evidence,
	}
	var err error
	if s.provider, err = newProvider(s); err != nil {
		return nil, err
	}
	c.sessions[s] = true
	c.verifier.putOff()
	return s, nil
}

// A LoadOption says what a tensor is for.
type LoadOption struct {
	eager, packOnly, retain, compare bool
	packedAs                         *identity // or nil
}

// Eager has the content in memory when Load returns. It is needed for whatever XNNPACK reads without a look-up that
// names it: the weights of operators that it packs unasked (depthwise convolution, deconvolution, NCHW convolution),
// the bias of operators with dynamically quantised input, which is packed in but left out of the key, and what is
// read at inference. XNNPACK of 2026 also converts weights that the CPU has no arithmetic for (f16) before it looks
// them up.
func Eager() LoadOption { return LoadOption{eager: true} }

// PackOnly says that nothing but packing reads the content, so that Session.Finalize can give it back even if XNNPACK
// packed it without the cache's knowledge: by itself it gives back only what a look-up or packing named.
func PackOnly() LoadOption { return LoadOption{packOnly: true} }

// Retain keeps the content until Session.Close. It is needed for tensors that are read at inference (PReLU slopes,
// constants of elementwise operators), even if an operator packs them too, and overrides PackOnly.
func Retain() LoadOption { return LoadOption{retain: true} }

// Compare says that the host does not know all that decides how XNNPACK packs a kernel: scales, zero points, the shape,
// the operator. No look-up of it is answered. What XNNPACK packs is compared in each process with what the cache has:
// equal bytes are shared, and others are kept beside them. So it is never wrong, the weights are in memory once, and
// nothing is written a second time; but a warm start takes as long as packing. PackedAs gives the cache what makes it
// fast, and does not undo Compare.
func Compare() LoadOption { return LoadOption{compare: true} }

// Load returns the unpacked tensor of that name: the memory whose address is to be given to XNNPACK, outside the Go
// heap and owned by the session. If the tensor's content is computed, it is there only once XNNPACK is about to pack
// it; Eager makes sure. The memory goes away in Finalize when packing consumed it, else in Close. Loading a name
// again returns the same memory and adds to the options. Errors: ErrNoDataMap, ErrUnknownTensor, ErrFinalized,
// ErrClosed.
func (s *Session) Load(name string, options ...LoadOption) ([]byte, error) {
	var o LoadOption
	for _, option := range options {
		o.eager = o.eager || option.eager
		o.packOnly = o.packOnly || option.packOnly
		o.retain = o.retain || option.retain
		o.compare = o.compare || option.compare
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, fmt.Errorf("load %q: %w", name, ErrClosed)
	case s.finalized:
		return nil, fmt.Errorf("load %q: %w", name, ErrFinalized)
	case s.data == nil:
		return nil, fmt.Errorf("load %q: %w", name, ErrNoDataMap)
	}
	src := s.sources[name]
	if src == nil {
		var err error
		if src, err = s.register(name); err != nil {
			return nil, fmt.Errorf("load %q: %w", name, err)
		}
	}
	src.consumed = src.consumed || o.packOnly
	if o.retain && !src.retain.Swap(true) {
		s.total -= int64(len(src.content))
		if src.counted {
			s.done -= int64(len(src.content))
		}
	}
	if o.compare {
		src.withStandIns(func(of *source) { of.packing.compare = true })
	}
	for _, option := range options {
		if id := option.packedAs; id != nil {
			src.addIdentity(*id)
			s.askAhead(src, &id.geometry)
		}
	}
	if o.eager {
		if err := src.fill(); err != nil {
			return nil, fmt.Errorf("load %q: %w", name, err)
		}
	}
	return src.content, nil
}

func (s *Session) register(name string) (*source, error) {
	if err := s.refused[name]; err != nil {
		return nil, err
	}
	t, err := s.data.Tensor(name)
	if err != nil {
		return nil, err
	}
	src := s.newSources.take()
	if err := src.init(name, &t, &s.computed); err != nil {
		if t.Release != nil {
			t.Release()
		}
		if s.refused == nil {
			s.refused = map[string]error{}
		}
		s.refused[name] = err
		return nil, err
	}
	src.from = s.origin(&t.Identity)
	s.sources[name] = src
	if !src.filled {
		s.unfilled = append(s.unfilled, src)
	}
	s.address(src)
	s.total += int64(len(src.content))
	s.cache.mu.Lock()
	src.family = s.cache.live[name]
	s.cache.mu.Unlock()
	return src, nil
}

// address has XNNPACK's address of a tensor stand for it. Of several names at one address, as in files that keep
// equal content once, the longest tensor's stands for all, so that its digest covers whatever is packed from there.
func (s *Session) address(src *source) {
	if len(src.content) == 0 {
		return
	}
	at := addressOf(src.content)
	other := s.addresses[at]
	switch {
	case other == nil:
	case len(other.content) > len(src.content):
		src.own().standIn = other
		other.own().least = min(other.leastContent(), src.leastContent())
		return
	default:
		other.own().standIn = src
		src.own().least = min(src.leastContent(), other.leastContent())
		src.packing = other.packing.clone()
		src.packing.given = false // of this one
	}
	s.addresses[at] = src
}

// fail keeps the first error that a callback has no way to return: the runtime must not be used, or XNNPACK cannot
// create it.
func (s *Session) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// remark reports an error that does the runtime no harm: what could not be kept or found is packed into private memory.
// s.mu is held.
func (s *Session) remark(err error) {
	s.remarks = append(s.remarks, err)
	s.cache.events.add(slog.LevelWarn, "packing goes on after an error", slog.Any("error", err))
}

// Finalize ends the creation of the runtime: call it when xnn_create_runtime has returned, before the runtime is set
// up. It gives back the unpacked tensors that packing consumed and has what was packed brought to the disk in a
// moment, without waiting for it. Calling it again returns the same.
//
// An error says that the runtime must not be used, or why XNNPACK could not create it: the first that a callback had no
// way to return, among them ErrNotEager, ErrSourceChanged and ErrLost, with Options.Strict also ErrDamaged. What went
// wrong without harm to the runtime is in Stats.LastError and is given to Options.Logger.
func (s *Session) Finalize() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("finalize: %w", ErrClosed)
	}
	first := !s.finalized
	if first {
		s.finalize()
	}
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	err := errors.Join(s.err, s.lostWeights)
	if first {
		s.countLoad(err)
	}
	return err
}

// Names returns the sorted names of the packed weights that the runtime uses so far, each the weights' name directly
// followed by the bias' name. It has none of unnamed weights, and none after Close.
func (s *Session) Names() []string {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	var names []string
	for _, e := range s.used {
		if e.reason != ReasonUnnamed {
			names = append(names, e.name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Err returns ErrLost once packed weights that the session's runtime uses may be lost, whether Finalize was called or
// not: the runtime must not be used any more. Ask it after each inference, before outputs are used; it takes some
// microseconds. It looks whether the file is still the one that was loaded: another program may have written over it,
// or cut it off. While something is not committed it also asks the system whether the disk has failed to take it.
// Systems other than Linux, and overlayfs, say so only when it is committed: there the answer is final after
// Cache.Save.
func (s *Session) Err() error {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.lostWeights != nil || c.store == nil {
		return s.lostWeights
	}
	if loaded := c.store.Loaded(); loaded != nil {
		var err error
		c.unlocked(func() { err = loaded.Check() })
		if err != nil {
			c.lost(loaded.File(), err)
		}
	}
	return s.lostWeights
}

func (s *Session) finalize() {
	s.finalized = true
	s.digests.Wait()
	changed := s.lookAgain()
	s.concludeAll(changed)
	s.pins.Wait()
	s.note(s.dropScratch())
	for _, src := range s.sources {
		if src.consumed && !src.retain.Load() {
			s.note(src.free())
		} else {
			s.kept = append(s.kept, src)
		}
	}
	s.loaded = len(s.sources)
	s.sources, s.newSources, s.unfilled, s.asked = nil, stock[source]{}, nil, weight{} // there may be a million
	s.note(s.computed.drop())
	s.addresses = nil
	s.provider.finalize()
}

// concludeAll says in the entries what they were packed from, and has them committed. changed is what lookAgain found.
func (s *Session) concludeAll(changed error) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range s.packings { // XNNPACK gave up on them
		s.discardLocked(p)
	}
	if changed = errors.Join(s.usesMixedLocked(), changed); changed != nil {
		s.mixLocked()
		s.err = errors.Join(changed, s.err)
	}
	for _, r := range s.restamps {
		s.restampLocked(r)
	}
	s.disambiguate()
	for _, e := range s.used {
		s.identifyLocked(e)
	}
	s.restamps = nil
	c.note(errors.Join(s.remarks...))
	s.packings, s.announced, s.remarks = nil, nil, nil
	if s.writing {
		s.writing = false
		c.writers--
		if c.writers == 0 {
			c.store.EndSupply()
		}
		c.idle.Broadcast()
		c.commitSoon() // and the lock is given up after it
	} else if c.dirty {
		c.commitChanges()
	}
	c.verifySoon()
	c.mapSoon()
}

// identifyLocked writes into an entry's record what it was packed from, all of which was read. From then on it can be
// committed.
func (s *Session) identifyLocked(e *entry) {
	if e.kernel == nil || e.by != s {
		return // found, or packed by another session, which will do it
	}
	kernel, bias := e.kernel, e.bias
	digest, err := kernel.contentDigest()
	e.record.Source, e.record.KernelStamp, e.record.KernelDigest = kernel.from.digest, kernel.stamp, digest
	if bias != nil {
		var biasErr error
		digest, biasErr = bias.contentDigest()
		e.record.BiasStamp, e.record.BiasDigest = bias.stamp, digest
		err = errors.Join(err, biasErr)
	}
	e.kernel, e.bias, e.by = nil, nil, nil
	if err != nil {
		s.remark(err)
		e.suspectFor(suspect) // nobody knows what it was packed from
	}
}

func (s *Session) note(err error) {
	if err != nil {
		s.cache.mu.Lock()
		s.cache.note(err)
		s.cache.mu.Unlock()
	}
}

// Close ends the session; the runtime must have been deleted. Private packed weights that no other session uses are
// freed. Closing twice is harmless.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if !s.finalized {
		s.finalize()
	}
	s.closed = true
	s.provider.free()
	s.provider = provider{}
	var errs []error
	for _, src := range s.kept {
		errs = append(errs, src.free())
	}
	s.kept = nil
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range s.used {
		c.release(e)
	}
	s.used = nil
	c.verifier.dropUnwanted()
	c.tensorsExpected = min(s.loaded, manyEntries)
	delete(c.sessions, s)
	c.idle.Broadcast()
	if c.store != nil && c.store.Writing() && c.writers == 0 {
		c.commitSoon() // gives the lock to others, if nothing is to be committed
	}
	return errors.Join(errs...)
}
