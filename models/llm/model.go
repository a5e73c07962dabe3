package llm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models/bundle"
	"xpwc/models/tflite"
)

// Errors that callers test for with errors.Is.
var (
	// ErrUnsupported: the file is no language model that this package runs.
	ErrUnsupported = errors.New("not a language model that can be run")
	// ErrFull: the conversation has as many tokens as the model's keys and values have room for.
	ErrFull = errors.New("the conversation is full")
	// ErrToken: the model does not have such a token.
	ErrToken = errors.New("unknown token")
	// ErrEmpty: the conversation has no tokens to continue.
	ErrEmpty = errors.New("the conversation is empty")
)

// Options of [Open]; nil and the zero value mean the defaults.
type Options struct {
	// Threads is how many threads compute, as of [xpwc/models/inference.Options].
	Threads int
	// Cache has the packed weights, in place of a cache file that Open opens. It stays the caller's, who closes it
	// after the model.
	Cache *xpwc.Cache
	// CacheOptions are the cache file's options; nil means their defaults. OrMemory is always set without Strict.
	CacheOptions *xpwc.Options
}

// A Model is a language model with its packed weights. Its methods may be called from many goroutines; one of them
// computes at a time.
type Model struct {
	file     string
	options  Options
	cache    *xpwc.Cache
	closes   bool           // the cache
	files    []*tflite.File // of a bundle's signatures
	decode   *step
	prefills []*step // the longest first
	caches   []cacheValue
	capacity int
	ends     []int32
	turn     chan struct{} // has an element while nobody computes

	mu     sync.Mutex
	open   int // conversations
	closed bool
}

const (
	decodeSignature = "decode"
	prefillPrefix   = "prefill"
)

// Open opens a language model, of a bundle or a program of ExecuTorch (.pte), with its packed weights in the cache
// file, or in memory if that is empty. It plans what computes one token, and makes its runtimes. A prefill's are made
// when a prompt first needs it; if it cannot be run, the prompt's first inference has the error. The error matches
// [ErrUnsupported], or is one of [bundle.Open], [tflite.Open], [executorch.Open], [xpwc.Open] and XNNPACK. The caller
// closes the model.
func Open(path, cacheFile string, o *Options) (m *Model, err error) {
	if o == nil {
		o = &Options{}
	}
	m = &Model{file: path, options: *o, cache: o.Cache, turn: make(chan struct{}, 1)}
	m.options.Threads = max(1, o.Threads)
	defer func() {
		if err != nil {
			m, err = nil, errors.Join(err, m.Close())
		}
	}()
	if m.cache == nil {
		if m.cache, err = instance.OpenCache(cacheFile, o.CacheOptions); err != nil {
			return m, err
		}
		m.closes = true
	}
	read := m.readSignatures
	if strings.EqualFold(filepath.Ext(path), ".pte") {
		read = m.readProgram
	}
	if err := read(); errors.Is(err, ErrUnsupported) {
		return m, fmt.Errorf("%s: %w", path, err)
	} else if err != nil { // has the path
		return m, err
	}
	err = m.decode.load(m)
	m.turn <- struct{}{}
	return m, err
}

// readSignatures finds the signatures of the bundle's language model, and checks that they belong together. Only decode
// is planned.
func (m *Model) readSignatures() error {
	b, err := bundle.Open(m.file)
	if err != nil {
		return err
	}
	language, embedder, err := sections(b)
	if err != nil {
		return err
	}
	model, err := m.openSection(language)
	if err != nil {
		return err
	}
	var embeddings *tflite.File
	if embedder != nil {
		if embeddings, err = m.openSection(embedder); err != nil {
			return err
		}
	}
	for _, name := range model.Signatures() {
		if name != decodeSignature && !strings.HasPrefix(name, prefillPrefix) {
			continue
		}
		s, err := newStep(model, name, embeddings)
		if err != nil {
			return fmt.Errorf("signature %s: %w", name, err)
		}
		if name == decodeSignature {
			m.decode = s
		} else {
			m.prefills = append(m.prefills, s)
		}
	}
	if m.decode == nil {
		return fmt.Errorf("%w: its signatures are %q, without %s", ErrUnsupported, model.Signatures(), decodeSignature)
	}
	slices.SortFunc(m.prefills, func(a, b *step) int { return b.tokens - a.tokens })
	return m.agree()
}

// openSection maps a model of the bundle, which is closed with m.
func (m *Model) openSection(s *bundle.Section) (*tflite.File, error) {
	f, err := tflite.OpenFile(m.file, &tflite.Options{Offset: s.Offset, Size: s.Size})
	if err == nil {
		m.files = append(m.files, f)
	}
	return f, err
}

// sections returns the language model of a bundle, and the model of its embeddings if that is one of its own.
func sections(b *bundle.Bundle) (language, embedder *bundle.Section, err error) {
	for _, s := range b.Models() {
		switch s.Role {
		case "tf_lite_prefill_decode":
			language = &s
		case "tf_lite_embedder":
			embedder = &s
		}
	}
	if language == nil {
		return nil, nil, fmt.Errorf("%w: the bundle has no model for prefill and decode", ErrUnsupported)
	}
	return language, embedder, nil
}

// agree opens decode, and checks that all signatures have the same keys and values.
func (m *Model) agree() error {
	if err := m.decode.open(); err != nil {
		return err
	}
	m.caches, m.capacity = m.decode.caches, m.decode.capacity
	if m.decode.tokens != 1 || m.decode.logits < 0 {
		return fmt.Errorf("%w: %s takes %d tokens and has no logits of one", ErrUnsupported, decodeSignature,
			m.decode.tokens)
	}
	for _, s := range m.prefills {
		alike := func(a, b cacheValue) bool { return a.name == b.name && a.bytes == b.bytes }
		if !slices.EqualFunc(s.caches, m.caches, alike) {
			return fmt.Errorf("%w: %s has other keys and values than %s", ErrUnsupported, s.name, decodeSignature)
		}
	}
	return nil
}

// Capacity is how many tokens a conversation can have, prompt and answers.
func (m *Model) Capacity() int { return m.capacity }

// Vocabulary is how many tokens the model knows: 0, 1, … up to it.
func (m *Model) Vocabulary() int { return m.decode.vocabulary }

// Ends returns the tokens that end an answer, if the file is a program that lists them. A bundle has them in its
// metadata.
func (m *Model) Ends() []int32 { return slices.Clone(m.ends) }

// Cache is where the packed weights are, for its Stats.
func (m *Model) Cache() *xpwc.Cache { return m.cache }

// take waits until nobody else computes, and returns what ends that.
func (m *Model) take(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-m.turn:
		return func() { m.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close closes the model. All conversations must be closed before; otherwise the error matches [xpwc.ErrInUse] and the
// model stays open. Closing twice is harmless.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	if m.open > 0 {
		return fmt.Errorf("%s: %d conversations are open: %w", m.file, m.open, xpwc.ErrInUse)
	}
	m.closed = true
	var errs []error
	for _, s := range append(slices.Clone(m.prefills), m.decode) {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	if m.closes {
		errs = append(errs, m.cache.Close())
	}
	return errors.Join(errs...)
}
