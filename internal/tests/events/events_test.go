package events

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

func TestACommitIsReported(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(3, 5000)
	var l harness.Listener
	c := harness.Open(t, path, l.Options())
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	heard := l.Events(c)
	require.Len(t, heard, 1)
	e := heard[0]
	require.Equal(t, "committed packed weights", e.Message)
	require.Equal(t, slog.LevelInfo, e.Level)
	require.Equal(t, c.Path(), e.Attributes["cache"].String())
	require.EqualValues(t, 1, e.Attributes["generation"].Uint64())
	require.EqualValues(t, 3, e.Attributes["entries"].Int64())
	require.Equal(t, c.Stats().Packed.Bytes, e.Attributes["bytes"].Int64())
	require.Positive(t, e.Attributes["duration"].Duration())

	c = harness.Open(t, path, l.Options())
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	require.Empty(t, l.Events(c), "a warm start has nothing to say")
}

// Finalize does not wait for the disk, and what it has committed needs neither Save nor Close.
func TestFinalizeCommitsInTheBackground(t *testing.T) {
	committed := make(chan struct{})
	l := harness.Listener{OnMessage: func(string) { close(committed) }}
	c := harness.Open(t, harness.Path(t), l.Options())
	slow := slowFiles{Files: harness.Files(c), armed: &atomic.Bool{}, release: make(chan struct{})}
	harness.SetFiles(c, slow)
	s, err := c.NewSession(xpwc.MapOf(harness.Tensors(2, 5000)))
	require.NoError(t, err)
	content, err := s.Load("tensor 0", xpwc.Believe())
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 42, harness.Address(content), 0))
	space := harness.Reserve(s, 100)
	harness.Insert(s, 42, harness.Address(content), 0, harness.Address(space), 100)
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
	files slowFiles
}

func (d slowDisk) Flush() error {
	if d.files.armed.Load() {
		<-d.files.release
	}
	return d.File.Flush()
}

func TestADamagedFileIsReported(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(2, 5000)
	content, _ := harness.SmallFile(t, tensors)
	require.NoError(t, os.WriteFile(path, content[:len(content)-1], 0o600))

	var l harness.Listener
	c := harness.Open(t, path, &xpwc.Options{Logger: slog.New(&l), ReadOnly: true})
	for range 2 {
		harness.PackTensors(t, c, tensors).MustClose(t)
	}
	require.NoError(t, c.Close())
	private := "packing into private memory"
	require.Equal(t, []string{"cache file is damaged", private, private}, l.Messages(c), "once a load")

	c = harness.Open(t, path, l.Options())
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	heard := l.Events(c)
	require.Len(t, heard, 3)
	require.Equal(t, "cache file is damaged", heard[0].Message)
	require.Equal(t, slog.LevelWarn, heard[0].Level)
	require.ErrorIs(t, heard[0].Attributes["error"].Any().(error), xpwc.ErrDamaged)
	require.Equal(t, "damaged cache file was set aside", heard[1].Message)
	require.FileExists(t, heard[1].Attributes["as"].String())
	require.Equal(t, "committed packed weights", heard[2].Message)
}

func TestADamagedPayloadIsReported(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(2, 5000)
	content, _ := harness.SmallFile(t, tensors)
	content[format.HeaderSize+100] ^= 4
	require.NoError(t, os.WriteFile(path, content, 0o600))
	var l harness.Listener
	c := harness.Open(t, path, &xpwc.Options{Logger: slog.New(&l), Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	heard := l.Events(c)
	require.Equal(t, "damaged payload is packed afresh", heard[0].Message)
	require.Equal(t, slog.LevelWarn, heard[0].Level)
	require.Contains(t, tensors, heard[0].Attributes["name"].String())
	require.Equal(t, "committed packed weights", heard[1].Message)
}

// Each load reports each reason once, however many tensors it packs.
func TestALoadReportsEachReasonForPrivateMemoryOnce(t *testing.T) {
	tensors := harness.Tensors(3, 1000)
	path := func(t *testing.T) string { return harness.Path(t) }
	for reason, cause := range map[xpwc.Reason]struct {
		level slog.Level
		err   error
		cache func(t *testing.T, l *harness.Listener) *xpwc.Cache
		use   func(t *testing.T, c *xpwc.Cache)
	}{
		xpwc.ReasonReadOnly: {
			level: slog.LevelInfo,
			cache: func(t *testing.T, l *harness.Listener) *xpwc.Cache {
				return harness.Open(t, path(t), &xpwc.Options{Logger: slog.New(l), ReadOnly: true})
			},
		},
		xpwc.ReasonBusy: {
			level: slog.LevelWarn,
			cache: func(t *testing.T, l *harness.Listener) *xpwc.Cache {
				p := path(t)
				theirs := harness.OpenProcess(t, p)
				s, err := theirs.NewSession(xpwc.MapOf(map[string][]byte{"x": harness.Content("x", 50)}))
				require.NoError(t, err)
				content, err := s.Load("x", xpwc.Believe())
				require.NoError(t, err)
				require.Equal(t, harness.NotFound, harness.LookUp(s, 1, harness.Address(content), 0))
				t.Cleanup(func() {
					require.NoError(t, s.Close())
					require.NoError(t, theirs.Close())
				})
				return harness.Open(t, p, &xpwc.Options{Logger: slog.New(l), WriterWait: -1})
			},
		},
		xpwc.ReasonDisk: {
			level: slog.LevelWarn,
			err:   syscall.ENOSPC,
			cache: func(t *testing.T, l *harness.Listener) *xpwc.Cache {
				c := harness.Open(t, path(t), l.Options())
				harness.SetFiles(c, fullFiles{harness.Files(c)})
				return c
			},
		},
		xpwc.ReasonUnnamed: {
			level: slog.LevelInfo,
			cache: func(t *testing.T, l *harness.Listener) *xpwc.Cache { return harness.Open(t, path(t), l.Options()) },
			use: func(t *testing.T, c *xpwc.Cache) {
				s, err := c.NewSession(nil)
				require.NoError(t, err)
				for i := range 3 {
					require.Equal(t, harness.NotFound, harness.LookUp(s, 42, uintptr(1+i), 0))
					space := harness.Reserve(s, 100)
					space[0] = byte(i)
					harness.Insert(s, 42, uintptr(1+i), 0, harness.Address(space), 100)
				}
				require.NoError(t, s.Finalize())
				require.NoError(t, s.Close())
			},
		},
	} {
		t.Run(string(reason), func(t *testing.T) {
			var l harness.Listener
			c := cause.cache(t, &l)
			use := cause.use
			if use == nil {
				use = func(t *testing.T, c *xpwc.Cache) { harness.PackTensors(t, c, tensors).MustClose(t) }
			}
			use(t, c)
			use(t, c)
			require.GreaterOrEqual(t, c.Stats().Private[reason].Entries, int64(3))
			var reported []harness.Event
			for _, e := range l.Events(c) {
				if e.Message == "packing into private memory" {
					reported = append(reported, e)
				}
			}
			require.NoError(t, c.Close())
			require.Len(t, reported, 2)
			for _, e := range reported {
				require.Equal(t, cause.level, e.Level)
				require.EqualValues(t, 3, e.Attributes["entries"].Int64())
				require.Equal(t, string(reason), e.Attributes["reason"].String())
				if cause.err != nil {
					require.ErrorIs(t, e.Attributes["error"].Any().(error), cause.err)
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

func TestACompactionAndItsReplacementAreReported(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(3, 40_000)
	var mine, theirs harness.Listener
	c := harness.Open(t, path, mine.Options())
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Save())
	require.Equal(t, []string{"committed packed weights"}, mine.Messages(c))

	second, err := harness.OpenAlone(path, theirs.Options(), osdisk.Files{})
	require.NoError(t, err)
	require.NoError(t, second.Compact())
	heard := theirs.Events(second)
	require.NoError(t, second.Close())
	require.Len(t, heard, 1)
	require.Equal(t, "compacted the cache file", heard[0].Message)
	require.Equal(t, slog.LevelInfo, heard[0].Level)
	require.Equal(t, uint64(c.Stats().FileBytes), heard[0].Attributes["bytes_before"].Uint64())
	require.Equal(t, uint64(second.Stats().FileBytes), heard[0].Attributes["bytes"].Uint64())

	harness.PackTensors(t, c, tensors).MustClose(t)
	heard = mine.Events(c)
	require.Len(t, heard, 1)
	require.Equal(t, "cache file was replaced by another process", heard[0].Message)
	require.Equal(t, slog.LevelInfo, heard[0].Level)
	require.NoError(t, c.Close())
}

func TestLostEntriesAreReported(t *testing.T) {
	path := harness.Path(t)
	var l harness.Listener
	c := harness.Open(t, path, l.Options())
	s, err := c.NewSession(xpwc.MapOf(harness.Tensors(1, 5000)))
	require.NoError(t, err)
	content, err := s.Load("tensor 0", xpwc.Believe())
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 42, harness.Address(content), 0))
	require.NoError(t, os.Rename(path, path+".away")) // Windows may keep a removed file's name while it is open
	space := harness.Reserve(s, 100)
	harness.Insert(s, 42, harness.Address(content), 0, harness.Address(space), 100)
	require.NoError(t, s.Close())
	require.ErrorIs(t, c.Save(), xpwc.ErrReplaced)
	heard := l.Events(c)
	require.Len(t, heard, 1)
	require.Equal(t, "packed weights could not be committed", heard[0].Message)
	require.Equal(t, slog.LevelWarn, heard[0].Level)
	require.ErrorIs(t, heard[0].Attributes["error"].Any().(error), xpwc.ErrReplaced)
	require.NoError(t, c.Close())
}

func TestWaitingForAnotherWriterIsReported(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(1, 1000)
	theirs := harness.OpenProcess(t, path)
	s, err := theirs.NewSession(xpwc.MapOf(tensors))
	require.NoError(t, err)
	content, err := s.Load("tensor 0", xpwc.Believe())
	require.NoError(t, err)
	// it is the writer from here on
	require.Equal(t, harness.NotFound, harness.LookUp(s, 42, harness.Address(content), 0))

	waiting := make(chan struct{})
	l := harness.Listener{OnMessage: func(message string) {
		if message == "waiting for another process that packs into the cache file" {
			close(waiting) // a second time panics
		}
	}}
	o := &xpwc.Options{Logger: slog.New(&l), WriterWait: time.Minute}
	mine, err := harness.OpenAlone(path, o, osdisk.Files{})
	require.NoError(t, err)
	done := make(chan *harness.Packed)
	go func() { done <- harness.PackTensors(t, mine, tensors) }()
	<-waiting
	packed := harness.PackedFrom(tensors["tensor 0"])
	space := harness.Reserve(s, uint64(len(packed)))
	copy(space, packed)
	harness.Insert(s, 42, harness.Address(content), 0, harness.Address(space), uint64(len(packed)))
	require.NoError(t, s.Close())
	require.NoError(t, theirs.Close())

	(<-done).MustClose(t)
	require.EqualValues(t, 1, mine.Stats().Hits.Entries, "what they packed")
	require.NoError(t, mine.Close())
	heard := l.Events(mine)
	require.Len(t, heard, 1)
	require.Equal(t, slog.LevelInfo, heard[0].Level)
	require.Equal(t, time.Minute, heard[0].Attributes["at_most"].Duration())
	require.NoError(t, mine.Stats().LastError)
}

// The logger holds no lock of the cache, whatever was locked where something happened.
func TestALoggerMayUseTheCache(t *testing.T) {
	path := harness.Path(t)
	content, _ := harness.SmallFile(t, harness.Tensors(1, 300))
	require.NoError(t, os.WriteFile(path, content[:len(content)-1], 0o600))
	opening := make(chan struct{})
	var cache *xpwc.Cache
	var calls atomic.Int64
	var l harness.Listener
	l.OnMessage = func(string) {
		<-opening
		if calls.Add(1) > 10 {
			return // what it does here may be reported too
		}
		_ = cache.Stats()
		_ = cache.Names()
		if err := cache.Save(); !errors.Is(err, xpwc.ErrClosed) {
			require.NoError(t, err)
		}
		s, err := cache.NewSession(xpwc.MapOf(map[string][]byte{"logger": {1, 2, 3}}))
		if errors.Is(err, xpwc.ErrClosed) {
			return
		}
		require.NoError(t, err)
		harness.PackSession(t, s, map[string][]byte{"logger": {1, 2, 3}}).MustClose(t)
	}
	cache = harness.Open(t, path, l.Options())
	close(opening)
	for i := range 3 {
		harness.PackTensors(t, cache, harness.Tensors(i+1, 500)).MustClose(t)
		require.NoError(t, cache.Save())
		harness.AwaitEvents(cache)
	}
	require.NoError(t, cache.Close())
	require.GreaterOrEqual(t, calls.Load(), int64(4), "damaged, set aside, committed, committed")
}

func TestAPanicOfTheLoggerIsHarmless(t *testing.T) {
	l := harness.Listener{OnMessage: func(string) { panic("logger") }}
	c := harness.Open(t, harness.Path(t), l.Options())
	harness.PackTensors(t, c, harness.Tensors(2, 500)).MustClose(t)
	require.NoError(t, c.Close())
	require.ErrorContains(t, c.Stats().LastError, "panic in Options.Logger: logger")
}

// As a test's handler does that calls FailNow.
func TestALoggerThatEndsItsGoroutineBlocksNoCaller(t *testing.T) {
	reported := 0
	l := &harness.Listener{OnMessage: func(string) {
		reported++
		runtime.Goexit()
	}}
	c := harness.Open(t, harness.Path(t), l.Options())
	for i := range 3 {
		harness.PackTensors(t, c, harness.Tensors(i+1, 100)).MustClose(t)
		require.NoError(t, c.Save())
	}
	require.NoError(t, c.Close())
	require.Equal(t, 3, reported)
}

func TestALoggerGetsEventsOfItsLevel(t *testing.T) {
	l := harness.Listener{Level: slog.LevelWarn}
	c := harness.Open(t, harness.Path(t), l.Options())
	harness.PackTensors(t, c, harness.Tensors(2, 500)).MustClose(t)
	require.NoError(t, c.Close())
	require.Empty(t, l.Events(c), "a commit is no warning")
}

func TestHandlesMayHaveDifferentLoggers(t *testing.T) {
	path := harness.Path(t)
	var first, second harness.Listener
	a := harness.Open(t, path, first.Options())
	b := harness.Open(t, path, second.Options())
	require.Same(t, harness.Writer(a), harness.Writer(b))
	harness.PackTensors(t, a, harness.Tensors(2, 500)).MustClose(t)
	require.NoError(t, b.Close())
	require.NoError(t, a.Close())
	require.Len(t, first.Events(a), 1)
	require.Len(t, second.Events(b), 1)
}

func TestAMaxBytesBelowTheWorkingSetIsReportedOnce(t *testing.T) {
	var l harness.Listener
	o := l.Options()
	o.MaxBytes = 1000
	c := harness.Open(t, harness.Path(t), o)
	first, second := harness.PackTensors(t, c, harness.Tensors(3, 500)), harness.PackTensors(t, c, harness.Tensors(6,
		500))
	reported := 0
	for _, e := range l.Events(c) {
		if e.Attributes["max_bytes"].Kind() == slog.KindInt64 {
			reported++
			require.EqualValues(t, 1000, e.Attributes["max_bytes"].Int64())
			require.Greater(t, e.Attributes["used_bytes"].Int64(), int64(1000))
		}
	}
	require.Equal(t, 1, reported)
	first.MustClose(t)
	second.MustClose(t)
}

func TestASharedLoggerGetsEachEventOnce(t *testing.T) {
	var l harness.Listener
	o, file := l.Options(), harness.Path(t)
	first, second := harness.Open(t, file, o), harness.Open(t, file, o)
	harness.PackTensors(t, first, harness.Tensors(3, 500)).MustClose(t)
	require.NoError(t, second.Save())
	require.Equal(t, []string{"committed packed weights"}, l.Messages(first))
	require.NoError(t, first.Close())
	harness.PackTensors(t, second, harness.Tensors(6, 500)).MustClose(t)
	require.NoError(t, second.Save())
	require.Equal(t, []string{"committed packed weights"}, l.Messages(second), "also after one of them was closed")
}

func TestEachHandleHasItsOwnLogger(t *testing.T) {
	var ofA, ofB harness.Listener
	file := harness.Path(t)
	a, b := harness.Open(t, file, ofA.Options()), harness.Open(t, file, ofB.Options())
	harness.PackTensors(t, a, harness.Tensors(3, 500)).MustClose(t)
	require.NoError(t, a.Save())
	require.Equal(t, []string{"committed packed weights"}, ofA.Messages(a))
	require.Equal(t, []string{"committed packed weights"}, ofB.Messages(b), "what concerns the file is for both")

	unnamed := harness.NewSession(t, b, nil)
	space := harness.Reserve(unnamed, 100)
	harness.Insert(unnamed, 42, 1, 0, harness.Address(space), 100)
	require.NoError(t, unnamed.Finalize())
	require.Equal(t, []string{"packing into private memory"}, ofB.Messages(b))
	require.Empty(t, ofA.Messages(a), "a session of the other handle is none of its business")
	require.NoError(t, unnamed.Close())

	require.NoError(t, b.Close())
	harness.PackTensors(t, a, harness.Tensors(6, 500)).MustClose(t)
	require.NoError(t, a.Save())
	require.Empty(t, ofB.Messages(b), "nor what happens after it was closed")
}

// A session that waits for a compaction of its own process does not report a wait for another process.
func TestACompactionIsNotReportedAsAnotherProcess(t *testing.T) {
	var l harness.Listener
	o := l.Options()
	o.WriterWait = 250 * time.Millisecond // longer than the first try takes on a slow machine
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, o)
	harness.PackTensors(t, c, harness.Tensors(1, 3000)).MustClose(t)
	require.NoError(t, c.Save())
	s := harness.NewSession(t, c, nil)
	var reason string
	h.Flush = func(string) error {
		_, reason = harness.User(s).StartWriting()
		return nil
	}
	require.NoError(t, c.Compact())
	require.EqualValues(t, xpwc.ReasonBusy, reason)
	const waiting = "waiting for another process that packs into the cache file"
	require.NotContains(t, l.Messages(c), waiting)

	theirs := harness.OpenProcess(t, path)
	holding := harness.NewSession(t, theirs, harness.Tensors(1, 50))
	for name := range harness.Tensors(1, 50) {
		require.Equal(t, harness.NotFound, harness.LookUp(holding, 1, harness.Load(t, holding, name), 0))
	}
	harness.PackTensors(t, c, map[string][]byte{"new": harness.Content("new", 100)}).MustClose(t)
	require.Contains(t, l.Messages(c), waiting, "nobody has waited for one so far")
}
