//go:build cgo

package identity

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/models/safetensors"
)

// digestedAfter gives the tensors, and their digests when the file is overwritten.
type digestedAfter struct{ *harness.Overwritten }

func (d digestedAfter) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.Data.Tensor(name)
	digest := t.Identity.Digest
	t.Identity.Digest = func() (xpwc.Digest, error) {
		<-d.Done
		return digest()
	}
	return t, err
}

func TestWeightsPackedFromAChangingFileAreNotKept(t *testing.T) {
	for name, digests := range map[string]bool{"between packing and digest": true, "between load and packing": false} {
		t.Run(name, func(t *testing.T) {
			o := harness.NewOverwritten(t)
			var log bytes.Buffer
			options := &xpwc.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			var data xpwc.DataMap = o.Data
			if digests {
				data = digestedAfter{o}
				options.Progress = func() func(xpwc.Progress) {
					once := sync.OnceFunc(o.Overwrite)
					return func(xpwc.Progress) { once() } // the first layer is packed
				}()
			}
			c := harness.OpenCache(t, o.Cache, options)
			s, err := c.NewSession(data)
			require.NoError(t, err)
			r, err := harness.ThreeLayers.Create(s, func(name string, options ...xpwc.LoadOption) ([]byte, error) {
				b, err := s.Load(name, options...)
				if name == "b3" && !digests { // the last
					o.Overwrite()
				}
				return b, err
			})
			require.NoError(t, err)
			err = s.Finalize()
			require.ErrorIs(t, err, xpwc.ErrSourceChanged)
			require.ErrorContains(t, err, o.Path)
			require.ErrorContains(t, err, "load the model again")
			require.EqualValues(t, 1, c.Stats().SourcesChanged)
			require.EqualValues(t, 1, c.Stats().Loads[xpwc.LoadFailed].Count)

			// A host of this process that loads it again, while the first has not closed.
			repeated, err := safetensors.Open(o.Path)
			require.NoError(t, err)
			require.Equal(t, harness.ThreeLayers.Plain(t, o.New), harness.ThreeLayers.Run(t, c, repeated))
			require.NoError(t, repeated.Close())

			require.NoError(t, r.Delete())
			require.NoError(t, s.Close())
			require.NoError(t, c.Close())
			require.Contains(t, log.String(), "source changed while it was packed")
			_, index := harness.ReadIndex(t, o.Cache)
			require.Equal(t, 3, index.Len())
			o.NextProcess()
		})
	}
}

// A second session finds what the first packed before either looks again.
func TestASourceChangeIsReportedToOtherSessions(t *testing.T) {
	for name, firstEnds := range map[string]bool{"the first ends first": true, "the second ends first": false} {
		t.Run(name, func(t *testing.T) {
			o := harness.NewOverwritten(t)
			c := harness.OpenCache(t, o.Cache, nil)
			first, err := c.NewSession(o.Data)
			require.NoError(t, err)
			a, err := harness.ThreeLayers.Create(first, first.Load)
			require.NoError(t, err)
			copied, err := safetensors.Open(o.Path) // of another opening
			require.NoError(t, err)
			second, err := c.NewSession(copied)
			require.NoError(t, err)
			b, err := harness.ThreeLayers.Create(second, second.Load)
			require.NoError(t, err)
			require.EqualValues(t, 3, c.Stats().Hits.Entries, "of what the first is packing")
			o.Overwrite()
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
			o.NextProcess()
		})
	}
}

// Many programs remove a file that they have opened, or put a new version in its place.
func TestReplacingAFileWhileItIsPackedIsHarmless(t *testing.T) {
	for name, replace := range map[string]func(o *harness.Overwritten){
		"replaced": func(o *harness.Overwritten) {
			require.NoError(o.T, os.WriteFile(o.Path+".new", harness.Safetensors(o.T, o.New), 0o600))
			require.NoError(o.T, os.Rename(o.Path+".new", o.Path))
		},
		"removed": func(o *harness.Overwritten) { require.NoError(o.T, os.Remove(o.Path)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := harness.NewOverwritten(t)
			once := sync.OnceFunc(func() { replace(o) })
			c := harness.OpenCache(t, o.Cache, &xpwc.Options{Progress: func(xpwc.Progress) { once() }})
			require.Equal(t, harness.ThreeLayers.Plain(t, o.Old), harness.ThreeLayers.Run(t, c, o.Data))
			require.NoError(t, c.Close())
			require.Equal(t, 3, c.Stats().Entries)
			require.Zero(t, c.Stats().SourcesChanged)
			if name == "replaced" {
				o.NextProcess()
			}
		})
	}
}

// A file that was written a moment ago may have been written to again at the same time: it is watched from when that
// would show.
func TestAFileWrittenJustBeforeIsPackedAndKept(t *testing.T) {
	path, tensors := filepath.Join(t.TempDir(), "model.safetensors"), harness.ThreeLayers.Weights(1)
	cache := harness.Path(t)
	for range 2 {
		require.NoError(t, os.WriteFile(path, harness.Safetensors(t, tensors), 0o600))
		data, err := safetensors.Open(path)
		require.NoError(t, err)
		c := harness.OpenCache(t, cache, nil)
		require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Run(t, c, data))
		require.NoError(t, c.Close())
		require.NoError(t, data.Close())
		require.Equal(t, 3, c.Stats().Entries)
	}
}

// A warm start on an ordinary file system reads no tensor.
func TestAWarmStartComputesNoDigest(t *testing.T) {
	o := harness.NewOverwritten(t)
	close(o.Done)
	if tensor, err := o.Data.Tensor("w1"); err != nil || tensor.Identity.Stamp == "" {
		t.Skip("the file system of the temporary directory has no stamps:", err)
	}
	for start := range 2 {
		c := harness.OpenCache(t, o.Cache, nil)
		data := &countedFile{File: o.Data}
		harness.ThreeLayers.Run(t, c, data)
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
	changed        bool // the file
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
	return d.changed, nil
}

func TestASourceIsCheckedOnceBeforeAndOnceAfterPacking(t *testing.T) {
	o := harness.NewOverwritten(t)
	for _, asked := range []int{2, 1} { // a warm session has nothing to ask for
		c := harness.OpenCache(t, o.Cache, nil)
		data := &countedFile{File: o.Data}
		harness.ThreeLayers.Run(t, c, data)
		require.NoError(t, c.Close())
		require.Equal(t, asked, data.asked)
	}
}

func TestAnEntryIsNotStampedWithAChangedSource(t *testing.T) {
	o := harness.NewOverwritten(t)
	run := func(data *countedFile) xpwc.Stats {
		c := harness.OpenCache(t, o.Cache, nil)
		// All are hits, by their digests: it is right.
		require.Equal(t, harness.ThreeLayers.Plain(t, o.Old), harness.ThreeLayers.Run(t, c, data))
		require.NoError(t, c.Close())
		return c.Stats()
	}
	run(&countedFile{File: o.Data})
	stats := run(&countedFile{File: o.Data, stamp: "another", changed: true})
	require.EqualValues(t, 3, stats.Hits.Entries)
	require.EqualValues(t, 1, stats.SourcesChanged)
	require.Zero(t, stats.WrittenBytes)
	require.NotZero(t, run(&countedFile{File: o.Data, stamp: "another"}).WrittenBytes)
}

// failing is a Watch that returns an error.
type failing struct{ *safetensors.File }

func (d *failing) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.File.Tensor(name)
	t.Identity.Watch = d
	return t, err
}

func (d *failing) Changed() (bool, error) { return false, os.ErrDeadlineExceeded }

func TestASourceWithAFailingCheckCountsAsChanged(t *testing.T) {
	o := harness.NewOverwritten(t)
	c := harness.OpenCache(t, o.Cache, nil)
	s, err := c.NewSession(&failing{o.Data})
	require.NoError(t, err)
	r, err := harness.ThreeLayers.Create(s, s.Load)
	require.NoError(t, err)
	err = s.Finalize()
	require.ErrorIs(t, err, xpwc.ErrSourceChanged)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, errors.Join(r.Delete(), s.Close(), c.Close()))
	require.Zero(t, c.Stats().Entries)
}
