//go:build cgo

package xpwc_test

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
)

// safetensorsOf is a safetensors file with tensors of float32.
func safetensorsOf(t testing.TB, tensors map[string][]byte) []byte {
	t.Helper()
	var all []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		content := tensors[name]
		all = append(all, safetensors.Tensor{Name: name, Dtype: safetensors.F32, Shape: []int{len(content) / 4},
			Data: content})
	}
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, all, nil))
	return file.Bytes()
}

// inPlace overwrites a file as a program does that opens it and writes to it.
func inPlace(t testing.TB, path string, content []byte) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(content, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A model whose file is overwritten in place while a session packs from it, at a moment of the test's choosing.
type overwritten struct {
	t        *testing.T
	path     string // of the model
	cache    string
	old, new map[string][]byte
	data     *safetensors.File
	done     chan struct{} // the file is overwritten
}

func newOverwritten(t *testing.T) *overwritten {
	o := &overwritten{
		t: t, path: filepath.Join(t.TempDir(), "model.safetensors"), cache: cachePath(t),
		old: threeLayers.weights(1), new: threeLayers.weights(2), done: make(chan struct{}),
	}
	require.NoError(t, os.WriteFile(o.path, safetensorsOf(t, o.old), 0o600))
	testkit.Settled(t, o.path)
	data, err := safetensors.Open(o.path)
	require.NoError(t, err)
	o.data = data
	t.Cleanup(func() { require.NoError(t, data.Close()) })
	return o
}

// overwrite is for one call.
func (o *overwritten) overwrite() {
	inPlace(o.t, o.path, safetensorsOf(o.t, o.new))
	close(o.done)
}

// digestedAfter gives the tensors, and their digests when the file is overwritten.
type digestedAfter struct{ *overwritten }

func (d digestedAfter) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.data.Tensor(name)
	digest := t.Identity.Digest
	t.Identity.Digest = func() (xpwc.Digest, error) {
		<-d.done
		return digest()
	}
	return t, err
}

// nextProcess loads what is in the file now, twice.
func (o *overwritten) nextProcess() {
	o.t.Helper()
	want := threeLayers.plain(o.t, o.new)
	testkit.Settled(o.t, o.path)
	for range 2 {
		data, err := safetensors.Open(o.path)
		require.NoError(o.t, err)
		c := openCache(o.t, o.cache, nil)
		require.Equal(o.t, want, threeLayers.run(o.t, c, data))
		require.NoError(o.t, c.Close())
		require.NoError(o.t, data.Close())
	}
}

func TestWhatWasPackedFromAFileThatChangesMeanwhileIsNotKept(t *testing.T) {
	for name, digests := range map[string]bool{"between packing and digest": true, "between load and packing": false} {
		t.Run(name, func(t *testing.T) {
			o := newOverwritten(t)
			var log bytes.Buffer
			options := &xpwc.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			var data xpwc.DataMap = o.data
			if digests {
				data = digestedAfter{o}
				options.Progress = func() func(xpwc.Progress) {
					once := sync.OnceFunc(o.overwrite)
					return func(xpwc.Progress) { once() } // the first layer is packed
				}()
			}
			c := openCache(t, o.cache, options)
			s, err := c.NewSession(data)
			require.NoError(t, err)
			r, err := threeLayers.create(s, func(name string, options ...xpwc.LoadOption) ([]byte, error) {
				b, err := s.Load(name, options...)
				if name == "b3" && !digests { // the last
					o.overwrite()
				}
				return b, err
			})
			require.NoError(t, err)
			err = s.Finalize()
			require.ErrorIs(t, err, xpwc.ErrSourceChanged)
			require.ErrorContains(t, err, o.path)
			require.ErrorContains(t, err, "load the model again")
			require.EqualValues(t, 1, c.Stats().SourcesChanged)
			require.EqualValues(t, 1, c.Stats().Loads[xpwc.LoadFailed].Count)

			// A host of this process that loads it again, while the first has not closed.
			again, err := safetensors.Open(o.path)
			require.NoError(t, err)
			require.Equal(t, threeLayers.plain(t, o.new), threeLayers.run(t, c, again))
			require.NoError(t, again.Close())

			require.NoError(t, r.Delete())
			require.NoError(t, s.Close())
			require.NoError(t, c.Close())
			require.Contains(t, log.String(), "source changed while it was packed")
			_, index := readIndex(t, o.cache)
			require.Equal(t, 3, index.Len())
			o.nextProcess()
		})
	}
}

// A second session finds what the first packed before either looks again.
func TestASessionThatUsesWhatAnotherPacksFromAChangingFileIsTold(t *testing.T) {
	for name, firstEnds := range map[string]bool{"the first ends first": true, "the second ends first": false} {
		t.Run(name, func(t *testing.T) {
			o := newOverwritten(t)
			c := openCache(t, o.cache, nil)
			first, err := c.NewSession(o.data)
			require.NoError(t, err)
			a, err := threeLayers.create(first, first.Load)
			require.NoError(t, err)
			copied, err := safetensors.Open(o.path) // of another opening
			require.NoError(t, err)
			second, err := c.NewSession(copied)
			require.NoError(t, err)
			b, err := threeLayers.create(second, second.Load)
			require.NoError(t, err)
			require.EqualValues(t, 3, c.Stats().Hits.Entries, "of what the first is packing")
			o.overwrite()
			sessions := []*xpwc.Session{first, second}
			if !firstEnds {
				slices.Reverse(sessions)
			}
			for _, s := range sessions {
				err = s.Finalize()
				require.ErrorIs(t, err, xpwc.ErrSourceChanged)
			}
			require.NoError(t, errors.Join(a.Delete(), b.Delete(), first.Close(), second.Close(), copied.Close()))
			require.NoError(t, c.Close())
			require.Zero(t, c.Stats().Entries)
			o.nextProcess()
		})
	}
}

// Many programs remove a file that they have opened, or put a new version in its place.
func TestReplacingAFileWhileItIsPackedIsHarmless(t *testing.T) {
	for name, replace := range map[string]func(o *overwritten){
		"replaced": func(o *overwritten) {
			require.NoError(o.t, os.WriteFile(o.path+".new", safetensorsOf(o.t, o.new), 0o600))
			require.NoError(o.t, os.Rename(o.path+".new", o.path))
		},
		"removed": func(o *overwritten) { require.NoError(o.t, os.Remove(o.path)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOverwritten(t)
			once := sync.OnceFunc(func() { replace(o) })
			c := openCache(t, o.cache, &xpwc.Options{Progress: func(xpwc.Progress) { once() }})
			require.Equal(t, threeLayers.plain(t, o.old), threeLayers.run(t, c, o.data))
			require.NoError(t, c.Close())
			require.Equal(t, 3, c.Stats().Entries)
			require.Zero(t, c.Stats().SourcesChanged)
			if name == "replaced" {
				o.nextProcess()
			}
		})
	}
}

// A file that was written a moment ago may have been written to again at the same time: it is watched from when that
// would show.
func TestAFileWrittenJustBeforeIsPackedAndKept(t *testing.T) {
	path, tensors := filepath.Join(t.TempDir(), "model.safetensors"), threeLayers.weights(1)
	cache := cachePath(t)
	for range 2 {
		require.NoError(t, os.WriteFile(path, safetensorsOf(t, tensors), 0o600))
		data, err := safetensors.Open(path)
		require.NoError(t, err)
		c := openCache(t, cache, nil)
		require.Equal(t, threeLayers.plain(t, tensors), threeLayers.run(t, c, data))
		require.NoError(t, c.Close())
		require.NoError(t, data.Close())
		require.Equal(t, 3, c.Stats().Entries)
	}
}

// A warm start on an ordinary file system reads no tensor.
func TestAWarmStartComputesNoDigest(t *testing.T) {
	o := newOverwritten(t)
	close(o.done)
	if tensor, err := o.data.Tensor("w1"); err != nil || tensor.Identity.Stamp == "" {
		t.Skip("the file system of the temporary directory has no stamps:", err)
	}
	for start := range 2 {
		c := openCache(t, o.cache, nil)
		data := &countedFile{File: o.data}
		threeLayers.run(t, c, data)
		require.NoError(t, c.Close())
		if start == 0 {
			require.NotZero(t, data.digests)
		} else {
			require.Zero(t, data.digests)
			require.EqualValues(t, 3, c.Stats().Hits.Entries)
		}
	}
}

// countedFile counts the digests that are computed of a file's tensors, and how often a session asks whether they
// changed.
type countedFile struct {
	*safetensors.File
	mu             sync.Mutex
	digests, asked int
	says           bool // that the file changed
	stamp          string
}

func (d *countedFile) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.File.Tensor(name)
	digest := t.Identity.Digest
	t.Identity.Digest = func() (xpwc.Digest, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.digests++
		return digest()
	}
	t.Identity.Stamp += d.stamp
	t.Identity.Watch = d
	return t, err
}

func (d *countedFile) Changed() (bool, error) {
	d.asked++
	return d.says, nil
}

func TestASourceIsAskedOnceBeforeAndOnceAfterPacking(t *testing.T) {
	o := newOverwritten(t)
	for _, asked := range []int{2, 1} { // a warm session has nothing to ask for
		c := openCache(t, o.cache, nil)
		data := &countedFile{File: o.data}
		threeLayers.run(t, c, data)
		require.NoError(t, c.Close())
		require.Equal(t, asked, data.asked)
	}
}

func TestAnEntryIsNotSaidToBeOfASourceThatChanged(t *testing.T) {
	o := newOverwritten(t)
	run := func(data *countedFile) xpwc.Stats {
		c := openCache(t, o.cache, nil)
		// All are hits, by their digests: it is right.
		require.Equal(t, threeLayers.plain(t, o.old), threeLayers.run(t, c, data))
		require.NoError(t, c.Close())
		return c.Stats()
	}
	run(&countedFile{File: o.data})
	stats := run(&countedFile{File: o.data, stamp: "another", says: true})
	require.EqualValues(t, 3, stats.Hits.Entries)
	require.EqualValues(t, 1, stats.SourcesChanged)
	require.Zero(t, stats.WrittenBytes)
	require.NotZero(t, run(&countedFile{File: o.data, stamp: "another"}).WrittenBytes)
}

// failing is a Watch that cannot say.
type failing struct{ *safetensors.File }

func (d *failing) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.File.Tensor(name)
	t.Identity.Watch = d
	return t, err
}

func (d *failing) Changed() (bool, error) { return false, os.ErrDeadlineExceeded }

func TestASourceThatCannotBeAskedIsTakenForChanged(t *testing.T) {
	o := newOverwritten(t)
	c := openCache(t, o.cache, nil)
	s, err := c.NewSession(&failing{o.data})
	require.NoError(t, err)
	r, err := threeLayers.create(s, s.Load)
	require.NoError(t, err)
	err = s.Finalize()
	require.ErrorIs(t, err, xpwc.ErrSourceChanged)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, errors.Join(r.Delete(), s.Close(), c.Close()))
	require.Zero(t, c.Stats().Entries)
}
