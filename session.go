package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"xpwc/internal/hook"
	"xpwc/internal/store"
	"xpwc/internal/writer"
	"xpwc/xnnpack/packing"
)

// A Session spans one xnn_runtime_t: it begins before the runtime is created and is closed after the runtime is
// deleted. It gives out the unpacked tensors, serves XNNPACK's callbacks while the runtime is created, and keeps the
// packed weights in memory that the runtime uses. Runtimes of one cache may be created and executed in parallel. A
// session that misses an entry waits for another one that packs it, see Options.WriterWait: hold no lock, while a
// runtime is created, that the DataMap needs.
type Session struct {
	tensors
	packer
	provider provider
	begun    time.Time

	mu    sync.Mutex
	state sessionState
	err   error // the first that a callback could not return

	evidence    evidence // of the file, when the session began
	layout      Digest   // of this machine, once layoutState is layoutKnown
	layoutState layoutState

	announced *miss   // the look-up that missed last: the next reservation is for it
	spare     *weight // for the next look-up

	restamps []writer.Sourced // Finalize drops them if a source changed
	report   loadReport
}

// A stage is how far a session has come.
type sessionState uint8

const (
	stateLoading sessionState = iota
	stateFinalized
	stateClosed
)

// NewSession begins a session. data gives the unpacked tensors for Load and may be nil if Load is not called: then all
// weights are unnamed. What other processes committed to the file by now is picked up.
func (c *Cache) NewSession(data DataMap) (*Session, error) {
	if err := c.checkOpen("new session"); err != nil {
		return nil, err
	}
	user, err := c.handle.NewUser()
	if err != nil {
		return nil, fmt.Errorf("new session: %w", err)
	}
	s := &Session{
		tensors:  newTensors(data),
		packer:   packer{cache: c, user: user, packings: map[uintptr]space{}},
		begun:    time.Now(),
		evidence: layoutEvidence(c.writer.Index()),
	}
	if s.provider, err = newProvider(s); err != nil {
		user.Close()
		return nil, err
	}
	return s, nil
}

// A LoadOption is a use of a tensor.
type LoadOption struct {
	eager, packOnly, retain bool
	belief                  belief
	packedAs                *packingIdentity // or nil
}

// Eager computes the content before Load returns. It is needed for tensors that XNNPACK reads without a look-up that
// names it: the weights of operators that it packs unasked (depthwise convolution, deconvolution, NCHW convolution),
// the bias of operators with dynamically quantised input, which is packed in but left out of the key, and what is
// read at inference. XNNPACK of 2026 also converts weights that the CPU has no arithmetic for (f16) before it looks
// them up.
func Eager() LoadOption { return LoadOption{eager: true} }

// PackOnly promises that only packing reads the content, so that Session.Finalize can release it even if XNNPACK packed
// it without a look-up. By default Finalize releases only tensors that a look-up or packing named.
func PackOnly() LoadOption { return LoadOption{packOnly: true} }

// Retain keeps the content until Session.Close. It is needed for tensors that are read at inference (PReLU slopes,
// constants of elementwise operators), even if an operator packs them too, and overrides PackOnly.
func Retain() LoadOption { return LoadOption{retain: true} }

// PackedAs describes how XNNPACK packs a kernel, and makes it part of the kernel's key: package xnnpack makes the
// identity of each node (xnnpack.FullyConnected.Packing and its siblings). Give it for each use of a kernel, of float32
// too. A kernel with several uses is given all of them before the runtime is created; together they are its key.
//
// Without it every look-up of the kernel misses, because XNNPACK's key has neither shape nor groups nor quantisation:
// packed weights of another shape would give wrong results and reads out of bounds. Each process packs the kernel and
// compares the bytes with the cache's. Equal bytes are shared, and others are kept too. So results are right, the
// weights are in memory once, and a warm start writes nothing, but it takes as long as packing.
//
// The same holds with an opaque identity (packing.Opaque), whose bytes the cache cannot compare with anything; see
// Believe. Several opaque ones are parts of one. An identity that is empty has no effect.
func PackedAs(id packing.Identity) LoadOption {
	if id.Zero() {
		return LoadOption{}
	}
	return LoadOption{packedAs: &packingIdentity{id.Digest(), id.Geometry()}}
}

// Believe vouches for a kernel without PackedAs, or with an opaque identity: whoever packs it under this name and
// identity into this cache packs it in the same way. Look-ups are answered then, and a warm start packs nothing. If
// shape, groups, operator, scales or a hidden bias differ all the same, the runtime computes wrong numbers and reads
// out of bounds.
func Believe() LoadOption { return LoadOption{belief: believeHost} }

// Compare makes each process pack the kernel and compare the bytes, even with PackedAs and Believe.
func Compare() LoadOption { return LoadOption{belief: believeNobody} }

// Load returns the unpacked tensor of that name: the memory whose address is to be given to XNNPACK, outside the Go
// heap and owned by the session. If the tensor's content is computed, it is there only once XNNPACK is about to pack
// it; Eager makes sure. The memory goes away in Finalize when packing consumed it, else in Close. Loading a name
// again returns the same memory and adds to the options. Errors: ErrNoDataMap, ErrUnknownTensor, ErrShape,
// ErrFinalized, ErrClosed.
func (s *Session) Load(name string, options ...LoadOption) ([]byte, error) {
	var o LoadOption
	for _, option := range options {
		o.eager = o.eager || option.eager
		o.packOnly = o.packOnly || option.packOnly
		o.retain = o.retain || option.retain
		o.belief = max(o.belief, option.belief)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == stateClosed:
		return nil, fmt.Errorf("load %q: %w", name, ErrClosed)
	case s.state == stateFinalized:
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
	for _, option := range options {
		if id := option.packedAs; id != nil && !id.geometry.Fits(len(src.content)) {
			return nil, fmt.Errorf("load %q, of %d bytes: %w", name, len(src.content), ErrShape)
		}
	}
	src.consumed = src.consumed || o.packOnly
	if o.retain && !src.retain.Swap(true) {
		s.total -= int64(len(src.content))
		if src.counted {
			s.done -= int64(len(src.content))
		}
	}
	src.withStandIns(func(s *source) { s.packing.belief = max(s.packing.belief, o.belief) })
	for _, option := range options {
		if id := option.packedAs; id != nil {
			src.addIdentity(*id)
		}
	}
	if o.eager || src.presence == evicted { // who loads it again may read it, as if it had stayed
		src.eager = true
		if err := s.fillInPlace(src); err != nil {
			return nil, fmt.Errorf("load %q: %w", name, err)
		}
	}
	return src.content, nil
}

// fail keeps the first error, if there is one, that a callback has no way to return: the runtime must not be used, or
// XNNPACK cannot create it.
func (s *Session) fail(err error) {
	s.err = cmp.Or(s.err, err)
}

// Names returns the sorted names of the packed weights that the runtime uses so far, each the weights' name directly
// followed by the bias' name. It has none of unnamed weights, and none after Close.
func (s *Session) Names() []string {
	var names []string
	for _, e := range s.user.Used() {
		if e.Reason != writer.ReasonUnnamed {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Err returns ErrLost once packed weights that the session's runtime uses may be lost, whether Finalize was called or
// not, and ErrSourceChanged if another session packed some of them and finds that its source changed meanwhile: the
// runtime must not be used any more. Ask it after each inference, before outputs are used; it takes some
// microseconds. It looks whether the file is still the one that was loaded: another program may have written over it,
// or cut it off. While something is not committed it also asks the system whether the disk has failed to take it.
// Other systems than Linux, and overlayfs, report that only at a commit: there the answer is final after Cache.Save.
func (s *Session) Err() error { return s.user.Check() }

// Lost returns the error of Err as far as it is known, without a look at the file. A host with several sessions of one
// cache asks Err of one of them, which looks for all, and then Lost of the others.
func (s *Session) Lost() error { return s.user.Lost() }

// Close ends the session; the runtime must have been deleted. Private packed weights that no other session uses are
// freed. Closing twice is harmless.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateClosed {
		return nil
	}
	if s.state == stateLoading {
		_ = s.finalize() // the runtime is gone, and so is its error
	}
	s.state = stateClosed
	s.provider.free()
	s.provider = provider{}
	var errs []error
	for _, src := range s.retained {
		errs = append(errs, src.free())
	}
	s.retained, s.report = nil, loadReport{}
	s.user.Close()
	return errors.Join(errs...)
}

// The tests below internal/tests reach sessions and caches through hook.
func init() {
	hook.LookUp = func(s any, seed uint32, kernel, bias uintptr) uintptr {
		return s.(*Session).lookUp(lookUpKey{seed, kernel, bias, 0})
	}
	hook.Reserve = func(s any, size uint64) []byte { return s.(*Session).reserve(size) }
	hook.Insert = func(s any, seed uint32, kernel, bias, address uintptr, size uint64) uintptr {
		return s.(*Session).insert(lookUpKey{seed, kernel, bias, 0}, address, size)
	}
	hook.Alias = func(s any, duplicate, original uintptr) { s.(*Session).alias(duplicate, original) }
	hook.Open = func(path string, o any, f store.Files, shared bool) (any, error) {
		if shared {
			return openPlace(place{path: path}, o.(*Options).withDefaults(), f, nil)
		}
		return newHandle(place{path: path}, o.(*Options).withDefaults(), f, nil)
	}
	hook.Writer = func(c any) *writer.Writer { return c.(*Cache).writer }
	hook.User = func(s any) *writer.User { return s.(*Session).user }
	hook.AwaitEvents = func(c any) { c.(*Cache).log.Wait() }
}
