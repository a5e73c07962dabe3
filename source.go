package xpwc

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"xpwc/internal/digest"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/writer"
	"xpwc/xnnpack/packing"
)

// tensors are the unpacked tensors of a session.
type tensors struct {
	data      DataMap
	sources   map[string]*source
	refused   map[string]error    // the data map's errors: each name is asked for once
	addresses map[uintptr]*source // by the address that XNNPACK has; also aliases
	retained  []*source           // until Close, of a finalized session

	computed *store.Arena  // of tensors whose content is computed
	unfilled []*source     // whose content may not be computed yet
	window   osdisk.Window // memory that moves from kernel to kernel: see Tensor.Refill
	moving   *source       // whose content is in that memory, or nil
	digests  writer.Tasks  // computed while XNNPACK packs

	watches     map[Watch]*watch
	origins     map[origin]*entries.Origin
	done, total int64 // see Progress
}

func newTensors(data DataMap) tensors {
	return tensors{
		data:      data,
		sources:   map[string]*source{},
		refused:   map[string]error{},
		addresses: map[uintptr]*source{},
		computed:  newArena(),
		watches:   map[Watch]*watch{},
		origins:   map[origin]*entries.Origin{},
	}
}

// newArena returns an arena of anonymous memory.
func newArena() *store.Arena { return store.NewArena(osdisk.Granularity(), mapAnonymous, unmap) }

// A source is an unpacked tensor as a session loaded it, or a copy of one.
type source struct {
	name    string
	content []byte // at the address XNNPACK knows it by
	packing packedAs

	presence presence
	eager    bool // loaded so
	refill   bool // Tensor.Refill
	consumed bool // nothing but packing reads it, and it may go when the runtime is created
	counted  bool // a key named it, which Progress counts
	isKernel bool // a key named it as one
	released bool
	unread   bool // Identity.DigestReadsNothing
	retain   atomic.Bool
	readers  atomic.Int32 // of the content, now or soon; see beginRead

	answers     []answer // of look-ups of this kernel in the session
	firstAnswer [1]answer

	identity entries.Content // what decides whether packed weights are of it

	fillWith   func(dst []byte) error // Tensor.Fill
	digestWith func() (Digest, error) // Identity.Digest
	evict      func()                 // Tensor.Evict
	release    func()                 // Tensor.Release

	memory     *store.Region // where its content is computed, or nil
	fillErr    error
	standIn    *source    // what stands for it, at the same address, or nil
	minimum    int        // bytes of the shortest tensor at its address, if that is another
	copies     []*source  // what the host or XNNPACK made of it
	copyOf     *source    // of a copy: the original
	copyMethod copyMethod // of a copy: how it was made
}

// A presence is whether a source's content is in memory.
type presence uint8

const (
	absent  presence = iota // it is not computed yet
	present                 // while it is packed, it may be in the session's window
	evicted                 // it was packed from the window, which is there and may have another's content
)

// sourceSlack is how far XNNPACK may read beyond a tensor at inference (XNN_EXTRA_BYTES, at most 128).
const sourceSlack = 128

// init makes s, which is zero, the source of a tensor.
func (s *source) init(name string, t *Tensor, computed *store.Arena) error {
	s.name, s.content = name, t.Data
	if t.Fill == nil {
		s.presence = present
	}
	s.identity.Reader = s
	s.fillWith, s.digestWith, s.evict, s.release = t.Fill, t.Identity.Digest, t.Evict, t.Release
	s.unread = t.Identity.DigestReadsNothing
	if t.Fill != nil {
		if t.Size < 0 {
			return fmt.Errorf("its size is %d", t.Size)
		}
		size := uint64(t.Size) + sourceSlack
		if s.refill = t.Refill && s.digestWith != nil && !store.FitsArena(size); s.refill {
			size = format.AlignUp(size, osdisk.WindowUnit)
		}
		memory, err := computed.Alloc(size)
		if err != nil {
			return err
		}
		s.memory, s.content = memory.Region, memory.Data[:t.Size:t.Size]
	}
	s.identity.Stamp = stampOf(&t.Identity)
	return nil
}

// stampOf returns what a file has of a stamp: its digest, zero if there is none.
func stampOf(id *Identity) Digest {
	switch {
	case id.Stamp == "":
		return Digest{}
	case strings.HasPrefix(id.Stamp, FileStamp):
		return digest.OfStrings(id.Stamp)
	}
	return digest.OfStrings(id.Source, id.Stamp)
}

// minimumSize returns how many bytes the kernel of a look-up of this tensor, or of a copy, has at least.
func (s *source) minimumSize() int {
	if original := s.copyOf; original != nil {
		return original.minimumSize()
	}
	if n := s.minimum; n > 0 {
		return n
	}
	return len(s.content)
}

// addIdentity adds a packing identity to a kernel, its stand-ins and their copies.
func (s *source) addIdentity(id packingIdentity) {
	s.withCopies(func(src *source) { src.packing.described = true })
	s.withStandIns(func(src *source) { src.packing.add(id) })
}

// withStandIns calls do for a tensor, its stand-ins, and their copies.
func (s *source) withStandIns(do func(*source)) {
	for src := s; src != nil; src = src.standIn {
		src.withCopies(do)
	}
}

// withCopies calls do for a tensor and all that was copied from it.
func (s *source) withCopies(do func(*source)) {
	do(s)
	for _, copied := range s.copies {
		copied.withCopies(do)
	}
}

// fits reports whether a kernel of this geometry fits into a source. XNNPACK is asked about no other: the question
// takes memory in proportion to the kernel, and a host may give any.
func (s *source) fits(g *packing.Geometry) bool {
	return g.Family.Kernel.Size() > 0 && g.LeastBytes() <= uint64(len(s.content))
}

// fill computes the content if it is not there yet. At its address is memory of its own, or the window for it.
func (s *source) fill() error {
	if s.presence == present || s.fillErr != nil {
		return s.fillErr
	}
	if err := guarded("Tensor.Fill", func() error { return s.fillWith(s.content) }); err != nil {
		s.fillErr = err
		return err
	}
	s.presence = present
	return nil
}

// register asks the data map for a tensor, and makes its source.
func (t *tensors) register(name string) (*source, error) {
	if err := t.refused[name]; err != nil {
		return nil, err
	}
	tensor, err := t.data.Tensor(name)
	if err != nil {
		t.refused[name] = err
		return nil, err
	}
	src := &source{}
	if err := src.init(name, &tensor, t.computed); err != nil {
		if tensor.Release != nil {
			tensor.Release()
		}
		t.refused[name] = err
		return nil, err
	}
	t.watch(&tensor.Identity)
	src.identity.Origin = t.origin(&tensor.Identity)
	t.sources[name] = src
	if src.presence == absent {
		t.unfilled = append(t.unfilled, src)
	}
	t.address(src)
	t.total += int64(len(src.content))
	return src, nil
}

// address has XNNPACK's address of a tensor stand for it. Of several names at one address, as in files that keep
// equal content once, the longest tensor's stands for all, so that its digest covers whatever is packed from there.
func (t *tensors) address(src *source) {
	if len(src.content) == 0 {
		return
	}
	address := addressOf(src.content)
	prev := t.addresses[address]
	switch {
	case prev == nil:
	case len(prev.content) > len(src.content):
		src.standIn = prev
		prev.minimum = min(prev.minimumSize(), src.minimumSize())
		return
	default:
		prev.standIn = src
		src.minimum = min(src.minimumSize(), prev.minimumSize())
		src.packing = prev.packing.clone()
		src.packing.described = false // of this one
	}
	t.addresses[address] = src
}

// fillForPacking computes the content of a tensor that is packed next, in the window if there is nothing else on it.
func (t *tensors) fillForPacking(src *source) error {
	if t.moving == nil && src.presence != present && src.fillErr == nil && src.evictable() {
		moved, err := t.window.Move(src.memory.Data())
		if err != nil {
			return src.fail(err)
		}
		if moved {
			t.moving, src.presence = src, absent
		}
	}
	return t.fillInPlace(src)
}

// fillInPlace computes the content of a tensor in memory of its own.
func (t *tensors) fillInPlace(src *source) error {
	if src.presence == evicted {
		t.window.Detach()
		src.presence = absent
	}
	return src.fill()
}

// fail records that there may be no memory at the content's address. The memory is not released: its address may be
// another tensor's by then.
func (s *source) fail(err error) error {
	s.fillErr, s.memory = err, nil
	return err
}

// evictable reports whether the content may be dropped once it is packed: only a look-up that misses reads it, and
// computes it again.
func (s *source) evictable() bool { return s.refill && s.isKernel && !s.eager && !s.retain.Load() }

// evictPacked drops the content in the window once it is packed.
func (t *tensors) evictPacked(packed []*source) {
	if src := t.moving; src != nil && src.evictable() && slices.Contains(packed, src) {
		t.moving, src.presence = nil, evicted
	}
}

// beginRead announces a read of the content, which endRead ends. The last reader's endRead calls Tensor.Evict.
func (s *source) beginRead() { s.readers.Add(1) }

func (s *source) endRead() {
	if s.readers.Add(-1) == 0 && s.evict != nil && !s.retain.Load() {
		_ = guarded("Tensor.Evict", func() error { s.evict(); return nil }) // the pages stay
	}
}

// digest computes the digest in the background, and ends a read.
func (s *source) digest() {
	defer s.endRead() // also if a function of the host's calls runtime.Goexit
	_, _ = s.identity.Digest()
}

// ReadDigest computes the digest of the content, and if need be the content. It is called once, by Content.Digest.
func (s *source) ReadDigest() (d Digest, err error) {
	s.beginRead()
	defer s.endRead()
	if s.digestWith != nil {
		err = guarded("Identity.Digest", func() (err error) {
			d, err = s.digestWith()
			return err
		})
		return d, err
	}
	if err := s.fill(); err != nil {
		return d, err
	}
	return DigestOf(s.content), nil
}

// free gives back what the source holds. XNNPACK must not read it any more.
func (s *source) free() error {
	if s.released {
		return nil
	}
	s.released = true
	s.content = nil
	var err error
	if s.release != nil {
		err = guarded("Tensor.Release", func() error { s.release(); return nil })
	}
	if memory := s.memory; memory != nil {
		err = errors.Join(err, memory.Release())
	}
	return err
}

// guarded calls a function of the host's. A panic in it is an error: it must not end a host that runs models, nor
// unwind into XNNPACK.
func guarded(name string, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in %s: %v", name, r)
		}
	}()
	return do()
}

// Alias declares alias to be a copy or conversion of a loaded tensor, which the host gives XNNPACK in its place.
// original is the slice that Load returned; only its address counts. conversion is a word for the conversion, for
// instance "f32 to f16". It alone distinguishes this copy from another of the same tensor: weights packed from alias
// have original's name followed by # and the word, and original's stamp and digest. Hosts that share a cache file must
// use one word for one conversion. Without a word every process that looks alias up digests all of it, and the name
// ends in #alias.
//
// alias must stay readable and unchanged until Finalize. XNNPACK of March 2026 and later reports its own copies
// itself. Errors: ErrUnknownTensor if original is nothing that Load returned, ErrNotEager if its content is yet to be
// computed, ErrFinalized, ErrClosed.
func (s *Session) Alias(alias, original []byte, conversion string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch src := s.addresses[addressOf(original)]; {
	case s.state == stateClosed:
		return fmt.Errorf("alias: %w", ErrClosed)
	case s.state == stateFinalized:
		return fmt.Errorf("alias: %w", ErrFinalized)
	case src == nil:
		return fmt.Errorf("alias: the original was not loaded: %w", ErrUnknownTensor)
	case len(alias) == 0:
		return nil // nothing is packed from it
	case conversion == "":
		return s.addAlias(addressOf(alias), src, copyMethod{kind: byContent, content: alias})
	default:
		return s.addAlias(addressOf(alias), src, copyMethod{kind: byWord, word: conversion, content: alias})
	}
}

// alias serves XNNPACK's alias_data. It has only addresses. In XNNPACK of August 2026 these are of static tensors
// that the CPU has no arithmetic for, f16 or bf16, and of their values in f32 (src/subgraph/rewrites/cvt_to_fp32.cc).
func (s *Session) alias(alias, original uintptr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if src := s.addresses[original]; src != nil {
		if err := s.addAlias(alias, src, copyMethod{kind: byXNNPACK, content: src.content}); err != nil {
			s.fail(err) // XNNPACK packs the copy all the same
		}
	}
}

// A copyMethod is what made a copy of a tensor.
type copyMethod struct {
	kind    copyKind
	word    string
	content []byte // of the copy; of the original where only XNNPACK knows it
}

// copyKind is how a copy is distinguished from others of the same tensor.
type copyKind int

const (
	byWord    copyKind = iota + 1 // the host has a word for it
	byContent                     // by its content
	byXNNPACK                     // XNNPACK made it as it always does
)

// suffix is what the name of the copy has after the original's. XNNPACK's is that of an empty word, which no host can
// give.
func (c *copyMethod) suffix() string {
	if c.kind == byContent {
		return "#alias"
	}
	return "#" + c.word
}

// digest returns the digest of a copy whose original has this one. No tensor's content and no other copy has it.
func (c *copyMethod) digest(original Digest) Digest {
	return digest.OfStrings("alias", c.suffix(), string(original[:]))
}

func (t *tensors) addAlias(alias uintptr, src *source, c copyMethod) error {
	match := func(copied *source) bool {
		if copied.copyMethod.kind != c.kind || copied.copyMethod.word != c.word {
			return false
		}
		return c.kind != byContent || addressOf(copied.content) == alias && len(copied.content) == len(c.content)
	}
	if src.presence != present {
		return fmt.Errorf("tensor %q was copied: %w", src.name, ErrNotEager)
	}
	i := slices.IndexFunc(src.copies, match)
	if i < 0 {
		i = len(src.copies)
		src.copies = append(src.copies, newCopy(src, c))
	}
	t.addresses[alias] = src.copies[i]
	return nil
}

func newCopy(src *source, c copyMethod) *source {
	copied := &source{
		name:       src.name + c.suffix(),
		content:    c.content,
		copyOf:     src,
		copyMethod: c,
		packing:    src.packing.clone(),
		presence:   present,
		counted:    true, // Progress has the original
	}
	copied.identity.Reader, copied.identity.Origin = copied, src.identity.Origin
	if c.kind == byContent {
		return copied
	}
	copied.digestWith = func() (Digest, error) {
		d, err := src.identity.Digest()
		return c.digest(d), err
	}
	if src.identity.Stamp != (Digest{}) {
		copied.identity.Stamp = c.digest(src.identity.Stamp)
	}
	return copied
}

// A watch is a session's view of a Watch: what tensors come from, and whether that was changed in place.
type watch struct {
	Watch
	source string
	prior  error // of the first call, when the session loaded from it
	read   bool  // tensors of it have no stamp: they are known by their content
}

// Changed returns an error that matches ErrSourceChanged if the content may have changed since it was given.
func (w *watch) Changed() error {
	if w.prior != nil {
		return w.prior
	}
	var changed bool
	err := guarded("Watch.Changed", func() (err error) {
		changed, err = w.Watch.Changed()
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("source %q: it may have been %w (%w)", w.source, ErrSourceChanged, err)
	case changed:
		return fmt.Errorf("source %q: %w", w.source, ErrSourceChanged)
	}
	return nil
}

// An origin is where a tensor comes from, as its Identity has it.
type origin struct {
	source string
	watch  Watch
}

// origin returns where a tensor comes from. Most of a session come from one file.
func (t *tensors) origin(id *Identity) *entries.Origin {
	key := origin{id.Source, id.Watch}
	o := t.origins[key]
	if o == nil {
		o = &entries.Origin{Source: digest.OfStrings(id.Source), Name: sourceName(id.Source), Watch: id.Watch,
			NoStamp: string(id.NoStamp)}
		t.origins[key] = o
	}
	return o
}

// sourceName is what a file has of the name of a source: the last part of a path, without where it is.
func sourceName(source string) string {
	if source == "" {
		return ""
	}
	return format.CleanName(filepath.Base(source))
}

// watch registers the watch of a tensor, if it has one. The first time it is asked, so that a change after that
// will show.
func (t *tensors) watch(id *Identity) {
	if id.Watch == nil {
		return
	}
	w := t.watches[id.Watch]
	if w == nil {
		w = &watch{Watch: id.Watch, source: id.Source}
		w.prior = w.Changed()
		t.watches[id.Watch] = w
	}
	w.read = w.read || id.Stamp == ""
}

// A DataMap gives a model's unpacked tensors by name, as ExecuTorch's NamedDataMap does. A [Session] asks it at most
// once for each name. Implementations must be safe for use by several sessions at the same time.
type DataMap interface {
	// Tensor returns the tensor of that name. For a name it does not know it returns an error that matches
	// [ErrUnknownTensor].
	Tensor(name string) (Tensor, error)
}

// ErrUnknownTensor: the data map has no tensor of that name.
var ErrUnknownTensor = errors.New("unknown tensor")

// A Tensor is an unpacked tensor as a [DataMap] gives it. Its content is either there (Data) or computed when packing
// is about to read it (Size and Fill).
type Tensor struct {
	// Data is the content, in memory that C code may keep pointers into: a file mapping or C memory, never the Go heap.
	// It must stay readable and unchanged until Release is called, or, without Release, until Session.Close.
	Data []byte

	// Size and Fill are for content that must be computed first: widened, decompressed, copied out of the Go heap.
	// Fill writes all Size bytes of dst, memory the session owns. It is called at most once in a session, unless Refill
	// is set, from the thread that creates the runtime, and not at all when everything packed from the tensor is found
	// in the cache.
	Size int
	Fill func(dst []byte) error

	// Refill allows Fill to be called again, with memory that has other bytes in it. Then large kernels are computed
	// one after the other in the same memory: each is dropped when it was packed, and computed again if it is packed or
	// loaded once more. Without Identity.Digest, Refill has no effect.
	Refill bool

	// Identity distinguishes this content from any other that may come under the same name.
	Identity Identity

	// Evict, if not nil, is called when the content was read, by packing or for its digest, and will hardly be read
	// again: a mapped source gives its pages back here, so that only one tensor's at a time are in memory. It must
	// stay readable. It may be called from any goroutine, and again if it is read again, but not for tensors loaded
	// with Retain.
	Evict func()

	// Release, if not nil, is called once, when the session needs Data no more: by Session.Finalize if packing
	// consumed it, by Session.Close otherwise.
	Release func()
}

// An Identity changes whenever a tensor's content does. Packed weights are reused only for the content they were packed
// from: if the stamps are equal, or else if the digests are.
type Identity struct {
	// Source names where the tensor comes from, for instance the absolute path of the model's file. Packed weights of
	// the same name and source but other content are superseded. Both are kept if the sources differ. A file has its
	// digest and, for people, the last part of it.
	Source string

	// Stamp is cheap to obtain and changes whenever the content does: for a file, its device, inode, size and times of
	// modification and of change with the tensor's position in it. When it is empty, or differs from the stored one,
	// digests are compared. It must be empty where that is not certain, as on file systems that do not make their
	// change times themselves (images, FAT, network file systems), for a file that was changed within the last tick of
	// the file system's clock, and for one that somebody may be writing to: the times show when a write begins, and not
	// when it ends. It holds for its Source alone, unless it begins with FileStamp.
	Stamp string

	// NoStamp is why Stamp is empty, if the data map knows it: one of the reasons for reading.
	NoStamp Reason

	// Digest returns the digest of the bytes that determine the content, for instance the compressed ones. When it is
	// nil, DigestOf(content) is used, which reads (and if need be computes) all of it. It may be called from another
	// goroutine while the runtime is created.
	Digest func() (Digest, error)

	// DigestReadsNothing: Digest returns what is known already. [Stats] does not count it as reading.
	DigestReadsNothing bool

	// Watch, if not nil, reports changes of the source. All tensors of one file have the same.
	Watch Watch
}

// FileStamp begins an [Identity.Stamp] that names the file, by device and inode, and the tensor's position in it. Such
// a stamp holds under every path of the file: it stays when a directory is renamed, and through a symbolic link.
const FileStamp = "file "

// A Watch reports whether what tensors come from, a file for instance, was changed in place. Without one, a tensor that
// is overwritten while it is packed may be stored as what it was not. It must be comparable, as a pointer is: a
// session asks each Watch once when it first loads a tensor of it, and once more in Session.Finalize if it packed
// something, or loaded a tensor of it without a stamp.
type Watch interface {
	// Changed reports whether the content may have changed since the tensors were given. After it has reported that it
	// did not, every later change must show, also one by a write that had begun before: where times are too coarse for
	// that, it waits, and where somebody may be writing, it compares the content. An error is taken for a change. It
	// must not use the cache: locks are held.
	Changed() (bool, error)
}

// A Digest is a 128-bit XXH3 hash, most significant byte first: of a tensor's content, or of packed samples as a
// layout's fingerprint. It guards against accidents, not against an adversary who can choose the content of a model. As
// text, also in JSON, it is 32 hexadecimal digits.
type Digest = digest.Digest

// DigestOf returns the digest of b: its XXH3-128 hash, most significant byte first.
func DigestOf(b []byte) Digest {
	return digest.Of(b)
}

// MapOf returns a DataMap of tensors in ordinary Go memory. A session copies a tensor into memory of its own before
// XNNPACK sees it, so the slices may be garbage-collected or changed once the session is closed, but not before.
// Tensors have no stamp: their digests are compared each time.
func MapOf(tensors map[string][]byte) DataMap { return goMap(tensors) }

type goMap map[string][]byte

func (m goMap) Tensor(name string) (Tensor, error) {
	content, ok := m[name]
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q: %w", name, ErrUnknownTensor)
	}
	return Tensor{
		Size: len(content),
		Fill: func(dst []byte) error { copy(dst, content); return nil },
		Identity: Identity{
			Digest: func() (Digest, error) { return DigestOf(content), nil },
		},
	}, nil
}
