package xpwc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"xpwc/internal/format"
)

// notFound is what look_up answers for what is not in the cache: SIZE_MAX (xnnpack.h).
const notFound = ^uintptr(0)

// A Session spans one xnn_runtime_t: it begins before the runtime is created and is closed after the runtime is deleted.
// It gives out the unpacked tensors, serves XNNPACK's callbacks while the runtime is created, and keeps the packed
// weights in memory that the runtime uses. Sessions of one cache are independent of each other: runtimes may be created
// and executed in parallel.
type Session struct {
	cache    *Cache
	data     DataMap
	provider provider

	mu        sync.Mutex
	finalized bool
	closed    bool
	err       error // the first that a callback could not return

	sources   map[string]*source
	addresses map[uintptr]*source // what XNNPACK knows a source by; also aliases
	aliases   int
	digests   sync.WaitGroup // of digests that are computed while XNNPACK packs

	announced *announcement
	packings  map[uintptr]packing
	answered  map[seedKey]*entry // what this session's look-ups and packings of a key came to
	scratch   *region            // packing space for what is compared before it is kept
	busy      bool               // the scratch is being packed into
	used      map[*entry]bool
	writing   bool   // this session keeps the process the file's writer
	noFile    Reason // why this session packs into private memory, or ""

	done, total int64 // Progress
}

// An announcement is a look-up that missed: the next reservation is for it.
type announcement struct {
	named   bool
	compare bool // there is something stored that the packing may turn out equal to
}

// A packing is space that XNNPACK packs into.
type packing struct {
	reservation
	kind  packingKind
	start time.Time
}

type packingKind int

const (
	inFile packingKind = iota
	inScratch
	inPrivate
)

// NewSession begins a session. data gives the unpacked tensors for Load and may be nil if Load is not called: then all
// weights are unnamed. What other processes committed to the file by now is picked up.
func (c *Cache) NewSession(data DataMap) (*Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("new session: cache %s: %w", c.path, ErrClosed)
	}
	if err := c.refresh(); err != nil {
		return nil, fmt.Errorf("new session: %w", err)
	}
	s := &Session{
		cache:     c,
		data:      data,
		sources:   map[string]*source{},
		addresses: map[uintptr]*source{},
		packings:  map[uintptr]packing{},
		answered:  map[seedKey]*entry{},
		used:      map[*entry]bool{},
	}
	var err error
	if s.provider, err = newProvider(s); err != nil {
		return nil, err
	}
	c.sessions++
	return s, nil
}

// A LoadOption says what a tensor is for.
type LoadOption func(*loadOptions)

type loadOptions struct {
	eager, retain bool
	quantization  []byte
}

// Eager has the content in memory when Load returns. It is needed for the weights of operators that XNNPACK packs
// without a look-up (depthwise convolution, deconvolution, NCHW convolution), and for whatever is read at inference.
func Eager() LoadOption { return func(o *loadOptions) { o.eager = true } }

// Retain keeps the content until Session.Close. It is needed for tensors that are read at inference (PReLU slopes,
// constants of elementwise operators), even if an operator packs them too.
func Retain() LoadOption { return func(o *loadOptions) { o.retain = true } }

// Quantized makes the quantisation parameters that a kernel is packed with part of its key, in any form that differs
// when they do: XNNPACK packs scales and zero points in, but leaves them out of its own key. Without it, two uses of one
// kernel with different parameters are told apart only within one session.
func Quantized(parameters []byte) LoadOption {
	return func(o *loadOptions) { o.quantization = parameters }
}

// Load returns the unpacked tensor of that name: the memory whose address is to be given to XNNPACK, outside the Go heap
// and owned by the session. If the tensor's content is computed, it is there only once XNNPACK is about to pack it;
// Eager makes sure. The memory goes away in Finalize when packing consumed it, else in Close. Loading a name again
// returns the same memory and adds to the options. Errors: ErrNoDataMap, ErrUnknownTensor, ErrFinalized, ErrClosed.
func (s *Session) Load(name string, options ...LoadOption) ([]byte, error) {
	var o loadOptions
	for _, option := range options {
		option(&o)
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
	if o.retain && !src.retain {
		src.retain = true
		s.total -= int64(len(src.content))
	}
	if o.quantization != nil {
		src.quantization = DigestOf(o.quantization)
	}
	if o.eager {
		if err := src.fill(); err != nil {
			return nil, fmt.Errorf("load %q: %w", name, err)
		}
	}
	return src.content, nil
}

// sourceSlack is how far XNNPACK may read beyond a tensor at inference (XNN_EXTRA_BYTES, at most 128).
const sourceSlack = 128

func (s *Session) register(name string) (*source, error) {
	t, err := s.data.Tensor(name)
	if err != nil {
		return nil, err
	}
	src := &source{name: name, tensor: t, content: t.Data, filled: t.Fill == nil}
	if t.Fill != nil {
		if t.Size < 0 {
			return nil, fmt.Errorf("its size is %d", t.Size)
		}
		if src.memory, err = newAnonymousRegion(uint64(t.Size) + sourceSlack); err != nil {
			return nil, err
		}
		src.content = src.memory.data[:t.Size:t.Size]
	}
	id := t.Identity
	if id.Source != "" {
		src.origin = digestOfStrings(id.Source)
	}
	if id.Stamp != "" {
		src.stamp = digestOfStrings(id.Source, id.Stamp)
	}
	s.sources[name] = src
	if len(src.content) > 0 {
		s.addresses[addressOf(src.content)] = src
	}
	s.total += int64(len(src.content))
	return src, nil
}

// fill computes the content if it is not there yet.
func (s *source) fill() error {
	if s.filled {
		return nil
	}
	if err := s.tensor.Fill(s.content); err != nil {
		return err
	}
	s.filled = true
	return nil
}

// lookUp serves XNNPACK's look_up: the address of the packed weights, or notFound.
func (s *Session) lookUp(seed uint32, kernel, bias uintptr, fingerprintID uint32) uintptr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finalized {
		s.fail(fmt.Errorf("look-up: %w", ErrFinalized))
		return notFound
	}
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()

	weight, named := s.weight(kernel, bias, fingerprintID)
	if !named {
		s.announced = &announcement{}
		c.stats.Misses++
		return notFound
	}
	key := seedKey{weight.key, seed}
	e, same := s.find(weight, seed)
	if e == nil && !same {
		s.becomeWriter()
		if len(c.candidates(weight.key)) > 0 { // it may be what another process packed while we waited
			e, same = s.find(weight, seed)
		}
	}
	if e != nil {
		s.use(e)
		s.restamp(weight, e)
		s.answered[key] = e
		c.stats.Hits.add(len(e.data))
		return addressOf(e.data)
	}
	c.stats.Misses++
	s.announced = &announcement{named: true, compare: same}
	for _, src := range []*source{weight.kernel, weight.bias} {
		if src == nil {
			continue
		}
		if err := src.fill(); err != nil {
			s.fail(fmt.Errorf("tensor %q: %w", src.name, err))
			continue
		}
		s.digests.Go(func() { _, _ = src.contentDigest() })
	}
	return notFound
}

// A weight is what a key of XNNPACK's stands for.
type weight struct {
	key          format.Key
	kernel, bias *source
}

// weight names what XNNPACK asks for; false if it is something Load never gave out. A bias without a name makes the
// whole unnamed: its bytes are packed in.
func (s *Session) weight(kernel, bias uintptr, fingerprintID uint32) (weight, bool) {
	w := weight{key: format.Key{Layout: s.cache.layout.Fingerprint, FingerprintID: fingerprintID}}
	if w.kernel = s.addresses[kernel]; w.kernel == nil {
		return w, false
	}
	w.key.Kernel = w.kernel.name
	w.key.Quantization = format.Digest(w.kernel.quantization)
	s.consume(w.kernel)
	if bias != 0 {
		if w.bias = s.addresses[bias]; w.bias == nil {
			return w, false
		}
		w.key.Bias, w.key.HasBias = w.bias.name, true
		s.consume(w.bias)
	}
	return w, true
}

func (s *Session) consume(src *source) {
	if !src.consumed {
		src.consumed = true
		if !src.retain {
			s.done += int64(len(src.content))
		}
	}
}

// find returns the entry that answers a look-up, or nil. same tells whether there is any entry of this weight with this
// content, be it under another seed or not to be told apart: what will be packed is to be compared with it.
func (s *Session) find(w weight, seed uint32) (answer *entry, same bool) {
	for _, e := range s.cache.candidates(w.key) {
		match, err := sameContent(w, e)
		if err != nil {
			s.fail(err)
			continue
		}
		if !match {
			continue
		}
		same = true
		if answer != nil || e.record.Flags&format.Variant != 0 {
			continue
		}
		key := seedKey{w.key, seed}
		if e.record.Seed != seed && s.cache.seeds[key] != e {
			continue
		}
		// The key does not tell scales and zero points apart. A second use of it in one model may mean other ones, until
		// it was once seen to be packed into the same bytes.
		if first := s.answered[key]; first != nil && e.record.Flags&format.Tied == 0 {
			continue
		}
		answer = e
	}
	return answer, same
}

// sameContent reports whether an entry was packed from the content that this session has under the same names.
func sameContent(w weight, e *entry) (bool, error) {
	pair := func(mine, theirs *source, stamp, digest format.Digest) (bool, error) {
		if mine == nil || mine == theirs {
			return true, nil
		}
		if err := mine.fillForDigest(stamp); err != nil {
			return false, fmt.Errorf("tensor %q: %w", mine.name, err)
		}
		if theirs != nil {
			d, err := theirs.contentDigest()
			if err != nil {
				return false, fmt.Errorf("tensor %q: %w", theirs.name, err)
			}
			stamp, digest = format.Digest(theirs.stamp), format.Digest(d)
		}
		return mine.is(stamp, digest)
	}
	same, err := pair(w.kernel, e.kernel, e.record.KernelStamp, e.record.KernelDigest)
	if err != nil || !same {
		return false, err
	}
	return pair(w.bias, e.bias, e.record.BiasStamp, e.record.BiasDigest)
}

// fillForDigest computes the content where only its digest can tell it from another.
func (s *source) fillForDigest(stamp format.Digest) error {
	if s.tensor.Identity.Digest != nil || s.stamp != (Digest{}) && s.stamp == Digest(stamp) {
		return nil
	}
	return s.fill()
}

// becomeWriter makes this process the file's writer for as long as the session packs.
func (s *Session) becomeWriter() {
	if s.writing || s.noFile != "" || s.cache.store == nil {
		return
	}
	if s.noFile = s.cache.beginWriting(); s.noFile == "" {
		s.writing = true
		s.cache.writers++
	}
}

// reserve serves XNNPACK's reserve_space: n bytes to pack into, or nil if there is no memory.
func (s *Session) reserve(n uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	announced := s.announced
	s.announced = nil
	p := packing{start: time.Now()}
	var err error
	switch {
	case announced == nil || announced.compare:
		p.kind, p.reservation, err = s.reserveScratch(n)
	case announced.named:
		p.kind, p.reservation, err = s.reserveKept(n)
	default:
		p.kind, p.reservation, err = s.reservePrivate(n)
	}
	if err != nil {
		s.fail(fmt.Errorf("reserve %d bytes: %w", n, err))
		return nil
	}
	s.packings[addressOf(p.data)] = p
	return p.data
}

// reserveKept reserves where a new named entry belongs: in the file, in the memory of a cache without a file, or, with
// the reason counted later, in private memory.
func (s *Session) reserveKept(n uint64) (packingKind, reservation, error) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.store == nil {
		r, err := c.arena.alloc(n)
		return inPrivate, r, err
	}
	s.becomeWriter()
	if s.noFile == "" {
		r, err := c.store.reserve(n)
		if err == nil {
			return inFile, r, nil
		}
		c.note(err)
		s.noFile = ReasonDisk
	}
	r, err := c.arena.alloc(n)
	return inPrivate, r, err
}

func (s *Session) reservePrivate(n uint64) (packingKind, reservation, error) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	r, err := s.cache.arena.alloc(n)
	return inPrivate, r, err
}

// reserveScratch reserves space that is used again for the next packing. Should XNNPACK reserve twice before it hands in
// what it packed, the second reservation is private memory.
func (s *Session) reserveScratch(n uint64) (packingKind, reservation, error) {
	if s.busy {
		return s.reservePrivate(n)
	}
	if s.scratch == nil || uint64(len(s.scratch.data)) < n {
		if err := s.dropScratch(); err != nil {
			return 0, reservation{}, err
		}
		r, err := newAnonymousRegion(n)
		if err != nil {
			return 0, reservation{}, err
		}
		s.scratch = r
	}
	s.busy = true
	return inScratch, reservation{region: s.scratch.retain(), data: s.scratch.data[:n:n]}, nil
}

func (s *Session) dropScratch() error {
	if s.scratch == nil {
		return nil
	}
	r := s.scratch
	s.scratch, s.busy = nil, false
	return r.release()
}

// insert serves XNNPACK's look_up_or_insert: the address where size bytes equal to those at the packed address stay.
// It never fails: what goes wrong is kept for Finalize, and the bytes stay where they were packed.
func (s *Session) insert(seed uint32, kernel, bias uintptr, fingerprintID uint32, packed uintptr, size uint64) uintptr {
	progress, address := s.insertQuietly(seed, kernel, bias, fingerprintID, packed, size)
	if progress != nil && s.cache.options.Progress != nil {
		s.cache.options.Progress(*progress)
	}
	return address
}

func (s *Session) insertQuietly(seed uint32, kernel, bias uintptr, fingerprintID uint32, packed uintptr, size uint64) (*Progress, uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	w, named := s.weight(kernel, bias, fingerprintID)
	key := seedKey{w.key, seed}
	if packed == 0 { // GEMM convolution hands in nothing when its look-up was a hit
		if e := s.answered[key]; named && e != nil {
			return nil, addressOf(e.data)
		}
	}
	p, ok := s.packings[packed]
	if !ok || size > uint64(len(p.data)) {
		s.fail(fmt.Errorf("XNNPACK hands in %d bytes at %#x, which were not reserved", size, packed))
		return nil, packed
	}
	delete(s.packings, packed)
	if named && (!w.kernel.filled || w.bias != nil && !w.bias.filled) {
		s.fail(fmt.Errorf("tensor %q was packed without a look-up: %w", w.kernel.name, ErrNotEager))
		named = false
	}
	c.stats.PackingTime += time.Since(p.start)
	p.data = p.data[:size:size]
	e := s.settlePacking(w, named, seed, p)
	s.use(e)
	if named {
		s.answered[key] = e
	}
	return &Progress{Name: e.name(), Bytes: int64(size), Done: s.done, Total: s.total}, addressOf(e.data)
}

// settlePacking finds or makes the entry for what was just packed.
func (s *Session) settlePacking(w weight, named bool, seed uint32, p packing) *entry {
	c := s.cache
	if !named {
		return s.settleUnnamed(p)
	}
	key := seedKey{w.key, seed}
	variant := false
	for _, e := range c.candidates(w.key) {
		if bytes.Equal(e.data, p.data) { // equal bytes are right, whoever packed them from what
			s.discard(p)
			s.adopt(key, w, e)
			c.stats.Reused.add(len(e.data))
			return e
		}
		same, err := sameContent(w, e)
		if err != nil {
			s.fail(err)
		}
		if same && (e.record.Seed == seed || c.seeds[key] == e) {
			variant = true
			s.setFlag(e, format.Variant)
		}
	}
	e := &entry{record: format.Record{Key: w.key, Seed: seed}, kernel: w.kernel, bias: w.bias}
	if variant {
		e.record.Flags |= format.Variant
	}
	s.place(e, p)
	if e.reason == "" {
		c.stats.Packed.add(len(e.data))
	} else {
		s.countPrivate(e)
	}
	c.keep(e)
	c.note(e.region.release()) // keep has taken its own reference
	return e
}

// place gives an entry its memory: where it was packed, unless that was scratch.
func (s *Session) place(e *entry, p packing) {
	c := s.cache
	if p.kind == inScratch {
		kept := p
		if !s.keepScratch(&kept) {
			s.giveUp(p)
			e.data, e.region, e.reason = p.data, p.region, ReasonDisk
			return
		}
		copy(kept.data, p.data)
		s.discard(p)
		p = kept
	}
	e.data, e.region = p.data, p.region
	switch {
	case p.kind == inFile:
		e.fresh = true
		e.record.Offset, e.record.Size = p.offset(), uint64(len(p.data))
		c.store.filled(p.reservation)
		c.fresh = append(c.fresh, e)
	case c.store != nil:
		e.reason = s.noFile
	}
}

// giveUp leaves a packing where it is, for good, when there is no memory for a copy.
func (s *Session) giveUp(p packing) {
	switch p.kind {
	case inScratch: // the packing's reference to the region goes to the entry
		s.cache.note(s.dropScratch())
	case inFile: // the space stays ours for as long as it is not filled
	case inPrivate:
	}
}

// keepScratch reserves lasting space for what was packed into scratch.
func (s *Session) keepScratch(p *packing) bool {
	s.cache.mu.Unlock()
	kind, r, err := s.reserveKept(uint64(len(p.data)))
	s.cache.mu.Lock()
	if err != nil {
		s.fail(err)
		return false
	}
	p.kind, p.reservation = kind, r
	return true
}

// settleUnnamed keeps what nothing identifies in private memory, once for each content.
func (s *Session) settleUnnamed(p packing) *entry {
	c := s.cache
	sum := DigestOf(p.data)
	for _, e := range c.unnamed[sum] {
		if bytes.Equal(e.data, p.data) {
			s.discard(p)
			c.stats.Reused.add(len(e.data))
			return e
		}
	}
	if p.kind != inPrivate {
		if r, err := c.arena.alloc(uint64(len(p.data))); err == nil {
			copy(r.data, p.data)
			s.discard(p)
			p = packing{reservation: r, kind: inPrivate}
		} else {
			s.fail(err)
			s.giveUp(p)
		}
	}
	e := &entry{reason: ReasonUnnamed, data: p.data, region: p.region}
	e.record.Sum = format.Digest(sum)
	c.unnamed[sum] = append(c.unnamed[sum], e)
	s.countPrivate(e)
	return e
}

// discard gives up the space of a packing whose bytes are elsewhere.
func (s *Session) discard(p packing) {
	c := s.cache
	switch p.kind {
	case inFile:
		c.note(c.store.cancel(p.reservation))
	case inScratch:
		s.busy = false
		c.note(p.region.release())
	case inPrivate:
		c.note(p.region.release())
	}
}

// adopt takes note that a packing under key gave the bytes of an entry.
func (s *Session) adopt(key seedKey, w weight, e *entry) {
	c := s.cache
	c.keep(e)
	if e.record.Seed != key.seed {
		c.seeds[key] = e
	}
	if s.answered[key] == e {
		s.setFlag(e, format.Tied)
	}
	s.restamp(w, e)
}

// restamp brings an entry's stamps up to date, so that the next look-up need not compare digests. Where one content comes
// from several sources, the first keeps its stamps: they would be rewritten with every change of source.
func (s *Session) restamp(w weight, e *entry) {
	if e.kernel != nil || e.record.Source != format.Digest(w.kernel.origin) {
		return
	}
	update := func(src *source, stamp *format.Digest) {
		if src != nil && src.stamp != (Digest{}) && *stamp != format.Digest(src.stamp) {
			*stamp = format.Digest(src.stamp)
			s.cache.dirty = true
		}
	}
	update(w.kernel, &e.record.KernelStamp)
	update(w.bias, &e.record.BiasStamp)
}

func (s *Session) setFlag(e *entry, flag format.Flags) {
	if e.record.Flags&flag == 0 {
		s.cache.keep(e)
		e.record.Flags |= flag
		s.cache.dirty = true
	}
}

func (s *Session) countPrivate(e *entry) {
	count := s.cache.stats.Private[e.reason]
	count.add(len(e.data))
	s.cache.stats.Private[e.reason] = count
}

// use keeps an entry for as long as the session is open.
func (s *Session) use(e *entry) {
	if s.used[e] {
		return
	}
	s.used[e] = true
	if e.reason != ReasonUnnamed {
		s.cache.keep(e)
	}
	e.sessions++
	if e.sessions == 1 {
		if e.reason == "" {
			s.cache.stats.MappedBytes += int64(len(e.data))
		} else {
			s.cache.stats.PrivateBytes += int64(len(e.data))
		}
	}
}

// alias serves XNNPACK's alias_data: it converted or copied a constant, and the copy stands for the original.
func (s *Session) alias(alias, original uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.addresses[original]
	if src == nil || alias == original {
		return
	}
	s.aliases++
	s.addresses[alias] = &source{
		name:         src.name + "#alias",
		tensor:       Tensor{Identity: Identity{Digest: func() (Digest, error) { return src.contentDigest() }}},
		quantization: src.quantization,
		filled:       true,
		origin:       src.origin,
		stamp:        src.stamp,
	}
}

// fail keeps the first error that a callback has no way to return.
func (s *Session) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Finalize ends the creation of the runtime: call it when xnn_create_runtime has returned, before the runtime is set up.
// It gives back the unpacked tensors that packing consumed and starts bringing what was packed to the disk, without
// waiting for it. It returns the sorted names of the packed weights that the runtime uses, each the weights' name
// directly followed by the bias' name. The error is the first that a callback met; the runtime is right all the same,
// unless its creation failed.
func (s *Session) Finalize() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("finalize: %w", ErrClosed)
	}
	if !s.finalized {
		s.finalize()
	}
	var names []string
	for e := range s.used {
		if e.reason != ReasonUnnamed {
			names = append(names, e.name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names), s.err
}

func (s *Session) finalize() {
	s.finalized = true
	s.digests.Wait()
	c := s.cache
	c.mu.Lock()
	for _, p := range s.packings { // XNNPACK gave up on them
		s.discard(p)
	}
	s.packings, s.announced, s.answered = nil, nil, nil
	for e := range s.used {
		s.identify(e)
	}
	if s.writing {
		s.writing = false
		c.writers--
		c.startCommit()
	} else if c.dirty {
		c.commitChanges()
	}
	c.mu.Unlock()
	s.note(s.dropScratch())
	for _, src := range s.sources {
		if src.consumed && !src.retain {
			s.note(src.free())
		}
	}
	s.addresses = nil
	s.provider.finalize()
}

// identify writes into an entry's record what it was packed from. From then on it can be committed.
func (s *Session) identify(e *entry) {
	if e.kernel == nil || s.sources[e.kernel.name] != e.kernel && !s.aliased(e.kernel) {
		return // found, or packed by another session, which will do it
	}
	kernel, bias := e.kernel, e.bias
	digest, err := kernel.contentDigest()
	e.record.Source, e.record.KernelStamp, e.record.KernelDigest = format.Digest(kernel.origin), format.Digest(kernel.stamp), format.Digest(digest)
	if bias != nil {
		var biasErr error
		digest, biasErr = bias.contentDigest()
		e.record.BiasStamp, e.record.BiasDigest = format.Digest(bias.stamp), format.Digest(digest)
		err = errors.Join(err, biasErr)
	}
	if err != nil {
		s.fail(err)
		return // it stays in memory, but nobody could tell what it was packed from
	}
	e.kernel, e.bias = nil, nil
}

func (s *Session) aliased(src *source) bool {
	for _, other := range s.addresses {
		if other == src {
			return true
		}
	}
	return false
}

func (s *Session) note(err error) {
	if err != nil {
		s.cache.mu.Lock()
		s.cache.note(err)
		s.cache.mu.Unlock()
	}
}

// free gives back what the source holds. XNNPACK must not read it any more.
func (s *source) free() error {
	if s.released {
		return nil
	}
	s.released = true
	s.content = nil
	if s.tensor.Release != nil {
		s.tensor.Release()
	}
	if s.memory != nil {
		return s.memory.release()
	}
	return nil
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
	var errs []error
	for _, src := range s.sources {
		errs = append(errs, src.free())
	}
	s.sources = nil
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range s.used {
		c.release(e)
	}
	s.used = nil
	c.sessions--
	return errors.Join(errs...)
}
