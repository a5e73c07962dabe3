package xpwc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// An event is a record as a handler saw it.
type event struct {
	level      slog.Level
	message    string
	attributes map[string]slog.Value
}

// A listener is a handler that keeps what it is given, and calls the host then.
type listener struct {
	least slog.Level
	host  func(message string)

	mu     sync.Mutex
	events []event
	slow   []event // loads that took longer than mapping, which are apart
}

func (l *listener) options() *Options { return &Options{Logger: slog.New(l)} }

func (l *listener) Enabled(_ context.Context, level slog.Level) bool { return level >= l.least }

func (l *listener) Handle(_ context.Context, r slog.Record) error {
	e := event{r.Level, r.Message, map[string]slog.Value{}}
	r.Attrs(func(a slog.Attr) bool { e.attributes[a.Key] = a.Value; return true })
	l.mu.Lock()
	if r.Message == "a load took longer than mapping" {
		l.slow = append(l.slow, e)
		l.mu.Unlock()
		return nil
	}
	l.events = append(l.events, e)
	l.mu.Unlock()
	if l.host != nil {
		l.host(r.Message)
	}
	return errors.New("a logger that fails harms nothing")
}

func (l *listener) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *listener) WithGroup(string) slog.Handler      { return l }

// heard returns the events so far, once all of them are handled, and forgets them.
func (l *listener) heard(c *Cache) []event {
	awaitEvents(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	events := l.events
	l.events = nil
	return events
}

func (l *listener) messages(c *Cache) (messages []string) {
	for _, e := range l.heard(c) {
		messages = append(messages, e.message)
	}
	return messages
}

func TestACommitIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(3, 5000)
	var l listener
	c := mustOpen(t, path, l.options())
	open(t, c, tensors).close(t)
	require.NoError(t, c.Close())
	heard := l.heard(c)
	require.Len(t, heard, 1)
	e := heard[0]
	require.Equal(t, "committed packed weights", e.message)
	require.Equal(t, slog.LevelInfo, e.level)
	require.Equal(t, c.Path(), e.attributes["cache"].String())
	require.EqualValues(t, 1, e.attributes["generation"].Uint64())
	require.EqualValues(t, 3, e.attributes["entries"].Int64())
	require.Equal(t, c.Stats().Packed.Bytes, e.attributes["bytes"].Int64())
	require.Positive(t, e.attributes["duration"].Duration())

	c = mustOpen(t, path, l.options())
	open(t, c, tensors).close(t)
	require.NoError(t, c.Close())
	require.Empty(t, l.heard(c), "a warm start has nothing to say")
}

// Finalize does not wait for the disk, and what it has committed needs neither Save nor Close.
func TestFinalizeHasWhatWasPackedCommittedWithoutWaiting(t *testing.T) {
	committed := make(chan struct{})
	l := listener{host: func(string) { close(committed) }}
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), l.options())
	slow := slowFiles{Files: filesOf(c), armed: &atomic.Bool{}, release: make(chan struct{})}
	setFiles(c, slow)
	s, err := c.NewSession(MapOf(someTensors(2, 5000)))
	require.NoError(t, err)
	content, err := s.Load("tensor 0", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(s, 42, addressTo(content), 0))
	space := reserve(s, 100)
	insert(s, 42, addressTo(content), 0, addressTo(space), 100)
	slow.armed.Store(true)
	require.NoError(t, s.Finalize())
	require.Zero(t, c.Stats().Generation, "the disk does not answer yet")
	close(slow.release)
	<-committed
	require.EqualValues(t, 1, c.Stats().Generation)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// slowFiles make files on a disk that, once armed, flushes nothing until it is released.
type slowFiles struct {
	store.Files
	armed   *atomic.Bool
	release chan struct{}
}

func (f slowFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return slowDisk{d, f}, err
}

type slowDisk struct {
	store.File
	of slowFiles
}

func (d slowDisk) Flush() error {
	if d.of.armed.Load() {
		<-d.of.release
	}
	return d.File.Flush()
}

func TestADamagedFileIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(2, 5000)
	content, _ := smallFile(t, tensors)
	require.NoError(t, os.WriteFile(path, content[:len(content)-1], 0o600))

	var l listener
	c := mustOpen(t, path, &Options{Logger: slog.New(&l), ReadOnly: true})
	for range 2 {
		open(t, c, tensors).close(t)
	}
	require.NoError(t, c.Close())
	private := "packing into private memory"
	require.Equal(t, []string{"cache file is damaged", private, private}, l.messages(c), "once a load")

	c = mustOpen(t, path, l.options())
	open(t, c, tensors).close(t)
	require.NoError(t, c.Close())
	heard := l.heard(c)
	require.Len(t, heard, 3)
	require.Equal(t, "cache file is damaged", heard[0].message)
	require.Equal(t, slog.LevelWarn, heard[0].level)
	require.ErrorIs(t, heard[0].attributes["error"].Any().(error), ErrDamaged)
	require.Equal(t, "damaged cache file was set aside", heard[1].message)
	require.FileExists(t, heard[1].attributes["as"].String())
	require.Equal(t, "committed packed weights", heard[2].message)
}

func TestADamagedPayloadIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(2, 5000)
	content, _ := smallFile(t, tensors)
	content[format.HeaderSize+100] ^= 4
	require.NoError(t, os.WriteFile(path, content, 0o600))
	var l listener
	c := mustOpen(t, path, &Options{Logger: slog.New(&l), Verify: VerifyOnUse})
	open(t, c, tensors).close(t)
	require.NoError(t, c.Close())
	heard := l.heard(c)
	require.Equal(t, "damaged payload is packed afresh", heard[0].message)
	require.Equal(t, slog.LevelWarn, heard[0].level)
	require.Contains(t, tensors, heard[0].attributes["name"].String())
	require.Equal(t, "committed packed weights", heard[1].message)
}

// Each load reports each reason once, however many tensors it packs.
func TestALoadReportsEachReasonForPrivateMemoryOnce(t *testing.T) {
	tensors := someTensors(3, 1000)
	path := func(t *testing.T) string { return filepath.Join(t.TempDir(), "cache") }
	for reason, cause := range map[Reason]struct {
		level slog.Level
		err   error
		cache func(t *testing.T, l *listener) *Cache
		use   func(t *testing.T, c *Cache)
	}{
		ReasonReadOnly: {
			level: slog.LevelInfo,
			cache: func(t *testing.T, l *listener) *Cache {
				return mustOpen(t, path(t), &Options{Logger: slog.New(l), ReadOnly: true})
			},
		},
		ReasonBusy: {
			level: slog.LevelWarn,
			cache: func(t *testing.T, l *listener) *Cache {
				p := path(t)
				theirs := otherProcess(t, p)
				s, err := theirs.NewSession(MapOf(map[string][]byte{"x": contentOf("x", 50)}))
				require.NoError(t, err)
				content, err := s.Load("x", Believe())
				require.NoError(t, err)
				require.Equal(t, missing, lookUp(s, 1, addressTo(content), 0))
				t.Cleanup(func() {
					require.NoError(t, s.Close())
					require.NoError(t, theirs.Close())
				})
				return mustOpen(t, p, &Options{Logger: slog.New(l), WriterWait: -1})
			},
		},
		ReasonDisk: {
			level: slog.LevelWarn,
			err:   syscall.ENOSPC,
			cache: func(t *testing.T, l *listener) *Cache {
				c := mustOpen(t, path(t), l.options())
				setFiles(c, fullFiles{filesOf(c)})
				return c
			},
		},
		ReasonUnnamed: {
			level: slog.LevelInfo,
			cache: func(t *testing.T, l *listener) *Cache { return mustOpen(t, path(t), l.options()) },
			use: func(t *testing.T, c *Cache) {
				s, err := c.NewSession(nil)
				require.NoError(t, err)
				for i := range 3 {
					require.Equal(t, missing, lookUp(s, 42, uintptr(1+i), 0))
					space := reserve(s, 100)
					space[0] = byte(i)
					insert(s, 42, uintptr(1+i), 0, addressTo(space), 100)
				}
				require.NoError(t, s.Finalize())
				require.NoError(t, s.Close())
			},
		},
	} {
		t.Run(string(reason), func(t *testing.T) {
			var l listener
			c := cause.cache(t, &l)
			use := cause.use
			if use == nil {
				use = func(t *testing.T, c *Cache) { open(t, c, tensors).close(t) }
			}
			use(t, c)
			use(t, c)
			require.GreaterOrEqual(t, c.Stats().Private[reason].Entries, int64(3))
			var reported []event
			for _, e := range l.heard(c) {
				if e.message == "packing into private memory" {
					reported = append(reported, e)
				}
			}
			require.NoError(t, c.Close())
			require.Len(t, reported, 2)
			for _, e := range reported {
				require.Equal(t, cause.level, e.level)
				require.EqualValues(t, 3, e.attributes["entries"].Int64())
				require.Equal(t, string(reason), e.attributes["reason"].String())
				if cause.err != nil {
					require.ErrorIs(t, e.attributes["error"].Any().(error), cause.err)
				}
			}
		})
	}
}

// fullFiles make files on a disk that has no room for more than their header.
type fullFiles struct{ store.Files }

func (f fullFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return fullDisk{d}, err
}

type fullDisk struct{ store.File }

func (d fullDisk) Allocate(offset, size int64) error {
	if offset+size > format.HeaderSize {
		return fmt.Errorf("allocate: %w", syscall.ENOSPC)
	}
	return d.File.Allocate(offset, size)
}

func TestACompactionIsToldAndWhoFollowsItTellsOfAReplacement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(3, 40_000)
	var mine, theirs listener
	c := mustOpen(t, path, mine.options())
	open(t, c, tensors).close(t)
	require.NoError(t, c.Save())
	require.Equal(t, []string{"committed packed weights"}, mine.messages(c))

	other, err := openAlone(path, theirs.options(), osdisk.Files{})
	require.NoError(t, err)
	require.NoError(t, other.Compact())
	heard := theirs.heard(other)
	require.NoError(t, other.Close())
	require.Len(t, heard, 1)
	require.Equal(t, "compacted the cache file", heard[0].message)
	require.Equal(t, slog.LevelInfo, heard[0].level)
	require.Equal(t, uint64(c.Stats().FileBytes), heard[0].attributes["bytes_before"].Uint64())
	require.Equal(t, uint64(other.Stats().FileBytes), heard[0].attributes["bytes"].Uint64())

	open(t, c, tensors).close(t)
	heard = mine.heard(c)
	require.Len(t, heard, 1)
	require.Equal(t, "cache file was replaced by another process", heard[0].message)
	require.Equal(t, slog.LevelInfo, heard[0].level)
	require.NoError(t, c.Close())
}

func TestWhatIsLostWithTheFileIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	var l listener
	c := mustOpen(t, path, l.options())
	s, err := c.NewSession(MapOf(someTensors(1, 5000)))
	require.NoError(t, err)
	content, err := s.Load("tensor 0", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(s, 42, addressTo(content), 0))
	require.NoError(t, os.Rename(path, path+".away")) // Windows may keep a removed file's name while it is open
	space := reserve(s, 100)
	insert(s, 42, addressTo(content), 0, addressTo(space), 100)
	require.NoError(t, s.Close())
	require.ErrorIs(t, c.Save(), ErrReplaced)
	heard := l.heard(c)
	require.Len(t, heard, 1)
	require.Equal(t, "packed weights could not be committed", heard[0].message)
	require.Equal(t, slog.LevelWarn, heard[0].level)
	require.ErrorIs(t, heard[0].attributes["error"].Any().(error), ErrReplaced)
	require.NoError(t, c.Close())
}

func TestWaitingForAnotherWriterIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(1, 1000)
	theirs := otherProcess(t, path)
	s, err := theirs.NewSession(MapOf(tensors))
	require.NoError(t, err)
	content, err := s.Load("tensor 0", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(s, 42, addressTo(content), 0)) // it is the writer from here on

	waiting := make(chan struct{})
	l := listener{host: func(message string) {
		if message == "waiting for another process that packs into the cache file" {
			close(waiting) // a second time panics
		}
	}}
	o := &Options{Logger: slog.New(&l), WriterWait: time.Minute}
	mine, err := openAlone(path, o, osdisk.Files{})
	require.NoError(t, err)
	done := make(chan *opened)
	go func() { done <- open(t, mine, tensors) }()
	<-waiting
	packed := packedFrom(tensors["tensor 0"])
	space := reserve(s, uint64(len(packed)))
	copy(space, packed)
	insert(s, 42, addressTo(content), 0, addressTo(space), uint64(len(packed)))
	require.NoError(t, s.Close())
	require.NoError(t, theirs.Close())

	(<-done).close(t)
	require.EqualValues(t, 1, mine.Stats().Hits.Entries, "what they packed")
	require.NoError(t, mine.Close())
	heard := l.heard(mine)
	require.Len(t, heard, 1)
	require.Equal(t, slog.LevelInfo, heard[0].level)
	require.Equal(t, time.Minute, heard[0].attributes["at_most"].Duration())
	require.NoError(t, mine.Stats().LastError)
}

// The logger holds no lock of the cache, whatever was locked where something happened.
func TestALoggerMayUseTheCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	content, _ := smallFile(t, someTensors(1, 300))
	require.NoError(t, os.WriteFile(path, content[:len(content)-1], 0o600))
	opening := make(chan struct{})
	var cache *Cache
	var calls atomic.Int64
	var l listener
	l.host = func(string) {
		<-opening
		if calls.Add(1) > 10 {
			return // what it does here may be reported too
		}
		_ = cache.Stats()
		_ = cache.Names()
		if err := cache.Save(); !errors.Is(err, ErrClosed) {
			require.NoError(t, err)
		}
		s, err := cache.NewSession(MapOf(map[string][]byte{"logger": {1, 2, 3}}))
		if errors.Is(err, ErrClosed) {
			return
		}
		require.NoError(t, err)
		packAll(t, s, map[string][]byte{"logger": {1, 2, 3}}).close(t)
	}
	cache = mustOpen(t, path, l.options())
	close(opening)
	for i := range 3 {
		open(t, cache, someTensors(i+1, 500)).close(t)
		require.NoError(t, cache.Save())
		awaitEvents(cache)
	}
	require.NoError(t, cache.Close())
	require.GreaterOrEqual(t, calls.Load(), int64(4), "damaged, set aside, committed, committed")
}

func TestAPanicOfTheLoggerHarmsNothing(t *testing.T) {
	l := listener{host: func(string) { panic("logger") }}
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), l.options())
	open(t, c, someTensors(2, 500)).close(t)
	require.NoError(t, c.Close())
	require.ErrorContains(t, c.Stats().LastError, "panic in Options.Logger: logger")
}

// As a test's handler does that calls FailNow.
func TestALoggerThatEndsItsGoroutineKeepsNobodyWaiting(t *testing.T) {
	reported := 0
	l := &listener{host: func(string) {
		reported++
		runtime.Goexit()
	}}
	c := mustOpen(t, cachePath(t), l.options())
	for i := range 3 {
		open(t, c, someTensors(i+1, 100)).close(t)
		require.NoError(t, c.Save())
	}
	require.NoError(t, c.Close())
	require.Equal(t, 3, reported)
}

func TestALoggerHearsWhatItsLevelLetsThrough(t *testing.T) {
	l := listener{least: slog.LevelWarn}
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), l.options())
	open(t, c, someTensors(2, 500)).close(t)
	require.NoError(t, c.Close())
	require.Empty(t, l.heard(c), "a commit is no warning")
}

func TestLoggersAreNoOptionsThatDiffer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	var first, second listener
	a := mustOpen(t, path, first.options())
	b := mustOpen(t, path, second.options())
	require.Same(t, writerOf(a), writerOf(b))
	open(t, a, someTensors(2, 500)).close(t)
	require.NoError(t, b.Close())
	require.NoError(t, a.Close())
	require.Len(t, first.heard(a), 1)
	require.Len(t, second.heard(b), 1)
}

func TestAMaxBytesBelowWhatIsUsedIsToldOnce(t *testing.T) {
	var l listener
	o := l.options()
	o.MaxBytes = 1000
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), o)
	first, second := open(t, c, someTensors(3, 500)), open(t, c, someTensors(6, 500))
	reported := 0
	for _, e := range l.heard(c) {
		if e.attributes["max_bytes"].Kind() == slog.KindInt64 {
			reported++
			require.EqualValues(t, 1000, e.attributes["max_bytes"].Int64())
			require.Greater(t, e.attributes["used_bytes"].Int64(), int64(1000))
		}
	}
	require.Equal(t, 1, reported)
	first.close(t)
	second.close(t)
}

func TestOneLoggerOfManyHandlesIsToldOnce(t *testing.T) {
	var l listener
	o, file := l.options(), filepath.Join(t.TempDir(), "cache")
	first, second := mustOpen(t, file, o), mustOpen(t, file, o)
	open(t, first, someTensors(3, 500)).close(t)
	require.NoError(t, second.Save())
	require.Equal(t, []string{"committed packed weights"}, l.messages(first))
	require.NoError(t, first.Close())
	open(t, second, someTensors(6, 500)).close(t)
	require.NoError(t, second.Save())
	require.Equal(t, []string{"committed packed weights"}, l.messages(second), "also after one of them was closed")
}

func TestEachHandleHasItsOwnLogger(t *testing.T) {
	var ofA, ofB listener
	file := filepath.Join(t.TempDir(), "cache")
	a, b := mustOpen(t, file, ofA.options()), mustOpen(t, file, ofB.options())
	open(t, a, someTensors(3, 500)).close(t)
	require.NoError(t, a.Save())
	require.Equal(t, []string{"committed packed weights"}, ofA.messages(a))
	require.Equal(t, []string{"committed packed weights"}, ofB.messages(b), "what concerns the file is for both")

	unnamed := newSession(t, b, nil)
	space := reserve(unnamed, 100)
	insert(unnamed, 42, 1, 0, addressTo(space), 100)
	require.NoError(t, unnamed.Finalize())
	require.Equal(t, []string{"packing into private memory"}, ofB.messages(b))
	require.Empty(t, ofA.messages(a), "a session of the other handle is none of its business")
	require.NoError(t, unnamed.Close())

	require.NoError(t, b.Close())
	open(t, a, someTensors(6, 500)).close(t)
	require.NoError(t, a.Save())
	require.Empty(t, ofB.messages(b), "nor what happens after it was closed")
}
