//go:build cgo

package sharing

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/xnnpack"
)

func TestTheSecondStartPacksNothing(t *testing.T) {
	path, tensors := harness.Path(t), harness.ThreeLayers.Weights(1)
	want := harness.ThreeLayers.Plain(t, tensors)

	c := harness.OpenCache(t, path, nil)
	require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
	cold := c.Stats()
	require.NoError(t, c.Close())
	require.EqualValues(t, 3, cold.Packed.Entries)
	require.EqualValues(t, 3, cold.Misses)

	c = harness.OpenCache(t, path, nil)
	opened := harness.ThreeLayers.Open(t, c, xpwc.MapOf(tensors))
	require.Equal(t, want, harness.ThreeLayers.Infer(t, opened.Runtime))
	warm := c.Stats()
	require.Equal(t, []string{"w1b1", "w2", "w3b3"}, opened.Names)
	require.Equal(t, cold.Packed, warm.Hits)
	require.Equal(t, warm.MappedBytes, warm.Hits.Bytes)
	require.Zero(t, warm.Misses)
	require.Zero(t, warm.Packed.Entries)
	require.Zero(t, warm.WrittenBytes)
	require.EqualValues(t, 1, warm.Generation)
	require.Equal(t, 3, warm.Entries)
	opened.MustClose(t)
}

func TestTwoRuntimesHoldOneCopy(t *testing.T) {
	for name, path := range map[string]string{"file": harness.Path(t), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			tensors := harness.ThreeLayers.Weights(1)
			c := harness.OpenCache(t, path, nil)
			first := harness.ThreeLayers.Open(t, c, xpwc.MapOf(tensors))
			single := c.Stats()
			second := harness.ThreeLayers.Open(t, c, xpwc.MapOf(tensors))
			two := c.Stats()
			require.Equal(t, single.MappedBytes, two.MappedBytes)
			require.EqualValues(t, 3, two.Hits.Entries)
			require.EqualValues(t, 3, two.Packed.Entries)
			want := harness.ThreeLayers.Infer(t, first.Runtime)
			first.MustClose(t)
			require.Equal(t, want, harness.ThreeLayers.Infer(t, second.Runtime), "after the other's end")
			second.MustClose(t)
			require.Zero(t, c.Stats().MappedBytes)

			third := harness.ThreeLayers.Open(t, c, xpwc.MapOf(tensors))
			require.EqualValues(t, 6, c.Stats().Hits.Entries, "entries outlive the sessions")
			third.MustClose(t)
		})
	}
}

func TestModelsShareCommonWeights(t *testing.T) {
	sibling := harness.Chain{Width: 96, Layers: [][2]string{{"w1", "b1"}, {"w4", "b4"}}}
	tensors := harness.ThreeLayers.Weights(1)
	for name, b := range sibling.Weights(1) {
		tensors[name] = b
	}
	c := harness.OpenCache(t, harness.Path(t), nil)
	a := harness.ThreeLayers.Open(t, c, xpwc.MapOf(tensors))
	b := sibling.Open(t, c, xpwc.MapOf(tensors))
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
	require.EqualValues(t, 4, c.Stats().Packed.Entries)
	require.Equal(t, sibling.Plain(t, tensors), sibling.Infer(t, b.Runtime))
	a.MustClose(t)
	b.MustClose(t)
}

func TestChangedContentUnderTheSameNameIsRepacked(t *testing.T) {
	path := harness.Path(t)
	original := harness.ThreeLayers.Weights(1)
	rewritten := harness.ThreeLayers.Weights(1)
	rewritten["w2"] = harness.Floats(96*96, 99)
	rewritten["b3"] = harness.Floats(96, 98)

	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(original))
	require.NoError(t, c.Close())

	c = harness.OpenCache(t, path, nil)
	require.Equal(t, harness.ThreeLayers.Plain(t, rewritten), harness.ThreeLayers.Run(t, c, xpwc.MapOf(rewritten)))
	s := c.Stats()
	require.EqualValues(t, 1, s.Hits.Entries, "w1 is the same")
	require.EqualValues(t, 2, s.Packed.Entries)
	require.NoError(t, c.Close())

	c = harness.OpenCache(t, path, nil)
	require.Equal(t, harness.ThreeLayers.Plain(t, original), harness.ThreeLayers.Run(t, c, xpwc.MapOf(original)),
		"and back")
	require.Equal(t, harness.ThreeLayers.Plain(t, rewritten), harness.ThreeLayers.Run(t, c, xpwc.MapOf(rewritten)))
}

func TestNamesWithEqualConcatenationsAreDifferentKeys(t *testing.T) {
	path := harness.Path(t)
	single := harness.Chain{Width: 32, Layers: [][2]string{{"ab", "c"}}}
	two := harness.Chain{Width: 32, Layers: [][2]string{{"a", "bc"}}}
	tensors := single.Weights(1)
	for name, b := range two.Weights(2) {
		tensors[name] = b
	}
	for range 2 {
		c := harness.OpenCache(t, path, nil)
		require.Equal(t, single.Plain(t, tensors), single.Run(t, c, xpwc.MapOf(tensors)))
		require.Equal(t, two.Plain(t, tensors), two.Run(t, c, xpwc.MapOf(tensors)))
		require.NoError(t, c.Close())
	}
}

func TestTiedWeightsArePackedAtTheFirstStartOnly(t *testing.T) {
	tied := harness.Chain{Width: 64, Layers: [][2]string{{"w", "b"}, {"w", "b"}, {"v", "b"}}}
	path, tensors := harness.Path(t), tied.Weights(1)
	want := tied.Plain(t, tensors)
	c := harness.OpenCache(t, path, nil)
	require.Equal(t, want, tied.Run(t, c, xpwc.MapOf(tensors)))
	s := c.Stats()
	require.EqualValues(t, 2, s.Packed.Entries)
	require.EqualValues(t, 1, s.Reused.Entries, "a second use of one key is compared once")
	require.NoError(t, c.Close())

	c = harness.OpenCache(t, path, nil)
	require.Equal(t, want, tied.Run(t, c, xpwc.MapOf(tensors)))
	s = c.Stats()
	require.EqualValues(t, 3, s.Hits.Entries)
	require.Zero(t, s.Misses)
	require.Zero(t, s.WrittenBytes)
}

func TestUnnamedWeightsStayPrivate(t *testing.T) {
	path, tensors := harness.Path(t), harness.ThreeLayers.Weights(1)
	c := harness.OpenCache(t, path, nil)
	open := func() (*xpwc.Session, *xnnpack.Runtime, func()) {
		s, err := c.NewSession(nil)
		require.NoError(t, err)
		load, free := harness.OutsideMemory(tensors)
		r, err := harness.ThreeLayers.Create(s, load)
		require.NoError(t, err)
		require.NoError(t, s.Finalize())
		require.Empty(t, s.Names())
		return s, r, func() {
			require.NoError(t, r.Delete())
			require.NoError(t, s.Close())
			free()
		}
	}
	_, r1, close1 := open()
	private := c.Stats().PrivateBytes
	require.Positive(t, private)
	_, r2, close2 := open()
	s := c.Stats()
	require.Equal(t, 2*private, s.PrivateBytes, "each session has its own")
	require.EqualValues(t, 6, s.Private[xpwc.ReasonUnnamed].Entries)
	require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Infer(t, r1))
	close1()
	require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Infer(t, r2))
	close2()
	require.Zero(t, c.Stats().PrivateBytes, "freed when nobody uses it")
	require.NoError(t, c.Close())
	require.NoFileExists(t, path)
}

func TestAnUnnamedBiasMakesTheEntryPrivate(t *testing.T) {
	m := harness.Chain{Width: 64, Layers: [][2]string{{"w", "b"}}}
	tensors := m.Weights(1)
	c := harness.OpenCache(t, harness.Path(t), nil)
	s, err := c.NewSession(xpwc.MapOf(tensors))
	require.NoError(t, err)
	bias, err := xnnpack.NewBuffer(4 * 64)
	require.NoError(t, err)
	defer bias.Free()
	copy(bias.Bytes(), tensors["b"])
	r, err := m.Create(s, func(name string, options ...xpwc.LoadOption) ([]byte, error) {
		if name == "b" {
			return bias.Bytes(), nil
		}
		return s.Load(name, append(options, xpwc.Eager())...)
	})
	require.NoError(t, err)
	require.NoError(t, s.Finalize())
	require.Equal(t, m.Plain(t, tensors), m.Infer(t, r))
	require.EqualValues(t, 1, c.Stats().Private[xpwc.ReasonUnnamed].Entries)
	require.NoError(t, r.Delete())
	require.NoError(t, s.Close())
}

// counted is a data map that counts what is asked of it.
type counted struct {
	mu       sync.Mutex
	tensors  map[string][]byte
	filled   []string
	evicted  []string
	released []string
}

func (d *counted) Tensor(name string) (xpwc.Tensor, error) {
	content, ok := d.tensors[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%q: %w", name, xpwc.ErrUnknownTensor)
	}
	note := func(list *[]string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		*list = append(*list, name)
	}
	return xpwc.Tensor{
		Size:     len(content),
		Fill:     func(dst []byte) error { note(&d.filled); copy(dst, content); return nil },
		Identity: xpwc.Identity{Source: "test", Stamp: fmt.Sprint(len(content))},
		Evict:    func() { note(&d.evicted) },
		Release:  func() { note(&d.released) },
	}, nil
}

func TestASourceIsComputedOnlyIfPackingReadsIt(t *testing.T) {
	path := harness.Path(t)
	data := &counted{tensors: harness.ThreeLayers.Weights(1)}
	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, data)
	require.ElementsMatch(t, []string{"w1", "b1", "w2", "w3", "b3"}, data.filled)
	require.NoError(t, c.Close())

	data = &counted{tensors: data.tensors}
	c = harness.OpenCache(t, path, nil)
	require.Equal(t, harness.ThreeLayers.Plain(t, data.tensors), harness.ThreeLayers.Run(t, c, data))
	require.Empty(t, data.filled)
	require.ElementsMatch(t, []string{"w1", "b1", "w2", "w3", "b3"}, data.released)
}

func TestFinalizeReleasesPackedTensorsAndCloseTheRest(t *testing.T) {
	tensors := harness.ThreeLayers.Weights(1)
	tensors["unused"] = harness.Floats(4, 1)
	data := &counted{tensors: tensors}
	c := harness.OpenCache(t, "", nil)
	s, err := c.NewSession(data)
	require.NoError(t, err)
	_, err = s.Load("unused", xpwc.Eager())
	require.NoError(t, err)
	slopes, err := s.Load("w2", xpwc.Eager(), xpwc.Retain())
	require.NoError(t, err)
	r, err := harness.ThreeLayers.Create(s, s.Load)
	require.NoError(t, err)
	require.Empty(t, data.released)
	require.NoError(t, s.Finalize())
	require.ElementsMatch(t, []string{"w1", "b1", "w3", "b3"}, data.released)
	require.Equal(t, tensors["w2"], slopes, "still there")
	require.NoError(t, r.Delete())
	require.NoError(t, s.Close())
	require.ElementsMatch(t, []string{"w1", "b1", "w2", "w3", "b3", "unused"}, data.released)
	require.NoError(t, s.Close(), "closing twice is harmless")
}

func TestPackedContentIsEvictedAtOnce(t *testing.T) {
	path := harness.Path(t)
	data := &counted{tensors: harness.ThreeLayers.Weights(1)}
	c := harness.OpenCache(t, path, nil)
	s, err := c.NewSession(data)
	require.NoError(t, err)
	_, err = s.Load("w2", xpwc.Retain())
	require.NoError(t, err)
	r, err := harness.ThreeLayers.Create(s, s.Load)
	require.NoError(t, err)
	require.NoError(t, s.Finalize())
	require.ElementsMatch(t, []string{"w1", "b1", "w3", "b3"}, data.evicted, "w2 is kept")
	require.NoError(t, r.Delete())
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().CopiedBytes)

	data = &counted{tensors: data.tensors}
	c = harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, data)
	require.Empty(t, data.evicted, "nothing was read")
}

func TestProgressReportsEachPackedEntry(t *testing.T) {
	var reported []xpwc.Progress
	c := harness.OpenCache(t, harness.Path(t),
		&xpwc.Options{Progress: func(p xpwc.Progress) { reported = append(reported, p) }})
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.Len(t, reported, 3)
	require.Equal(t, "w1b1", reported[0].Name)
	require.Equal(t, c.Stats().Packed.Bytes, reported[0].Bytes+reported[1].Bytes+reported[2].Bytes)
	require.Equal(t, reported[2].Total, reported[2].Done)
	require.EqualValues(t, 3*4*96*96+2*4*96, reported[2].Total)
	reported = nil
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.Empty(t, reported, "nothing is packed")
}

func TestHandlesOfOnePathShareEntries(t *testing.T) {
	path, tensors := harness.Path(t), harness.ThreeLayers.Weights(1)
	a := harness.OpenCache(t, path, nil)
	b := harness.OpenCache(t, filepath.Join(filepath.Dir(path), ".", filepath.Base(path)), nil)
	require.NotSame(t, a, b)
	_, err := xpwc.Open(path, &xpwc.Options{ReadOnly: true})
	require.ErrorIs(t, err, xpwc.ErrOtherOptions)
	opened := harness.ThreeLayers.Open(t, a, xpwc.MapOf(tensors))
	require.EqualValues(t, 3, b.Stats().Packed.Entries)
	harness.ThreeLayers.Run(t, b, xpwc.MapOf(tensors))
	require.EqualValues(t, 3, a.Stats().Hits.Entries, "what one handle's sessions packed the other's find")

	require.NoError(t, b.Close(), "the sessions are of the other handle")
	require.ErrorIs(t, a.Close(), xpwc.ErrInUse)
	require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Infer(t, opened.Runtime),
		"an open session keeps its memory")
	opened.MustClose(t)
	require.NoError(t, a.Close())
}

func TestInvalidOptionsAreErrors(t *testing.T) {
	for _, o := range []xpwc.Options{{MaxBytes: -1}, {Verify: 77}, {Verify: -1}} {
		for _, path := range []string{"", harness.Path(t)} {
			o.OrMemory = true
			_, err := xpwc.Open(path, &o)
			require.ErrorIs(t, err, xpwc.ErrOptions)
		}
	}
	require.ErrorIs(t, harness.OpenCache(t, harness.Path(t), nil).Prune(xpwc.PruneOptions{MaxBytes: -1}),
		xpwc.ErrOptions)
}

func TestAHandleIsClosedOnce(t *testing.T) {
	path, tensors := harness.Path(t), harness.ThreeLayers.Weights(1)
	a, b := harness.OpenCache(t, path, nil), harness.OpenCache(t, path, nil)
	for range 3 {
		require.NoError(t, a.Close(), "closing again is harmless")
	}
	require.Len(t, harness.ThreeLayers.Run(t, b, xpwc.MapOf(tensors)), 96, "and closes no other handle")
	require.NoError(t, b.Save())
	require.NoError(t, b.Close())

	c := harness.OpenCache(t, path, &xpwc.Options{ReadOnly: true})
	require.NoError(t, a.Close(), "nor one that was opened later")
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
	require.EqualValues(t, 3, a.Stats().Hits.Entries, "its figures are those of the file's handles")

	_, err := a.NewSession(nil)
	for call, err := range map[string]error{
		"session": err, "save": a.Save(), "compact": a.Compact(), "trim": a.Trim(),
		"prune": a.Prune(xpwc.PruneOptions{}),
	} {
		require.ErrorIs(t, err, xpwc.ErrClosed, call)
	}
}

func TestEachHandleReportsItsOwnProgress(t *testing.T) {
	var ofA, ofB []string
	path := harness.Path(t)
	a := harness.OpenCache(t, path, &xpwc.Options{Progress: func(p xpwc.Progress) { ofA = append(ofA, p.Name) }})
	b := harness.OpenCache(t, path, &xpwc.Options{Progress: func(p xpwc.Progress) { ofB = append(ofB, p.Name) }})
	harness.ThreeLayers.Run(t, a, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.Equal(t, []string{"w1b1", "w2", "w3b3"}, ofA)
	require.Empty(t, ofB)
	harness.ThreeLayers.Run(t, b, xpwc.MapOf(harness.ThreeLayers.Weights(2)))
	require.Len(t, ofA, 3)
	require.Equal(t, []string{"w1b1", "w2", "w3b3"}, ofB)
}

func TestRuntimesAreCreatedAndRunInParallel(t *testing.T) {
	shared := harness.ThreeLayers.Weights(1)
	want := harness.ThreeLayers.Plain(t, shared)
	for name, path := range map[string]string{"file": harness.Path(t), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			c := harness.OpenCache(t, path, nil)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					mine := harness.Chain{Width: 64, Layers: [][2]string{{fmt.Sprint("w", i), "b"}, {"common", ""}}}
					for range 5 {
						if got := harness.ThreeLayers.Run(t, c, xpwc.MapOf(shared)); !harness.EqualOutputs(want, got) {
							t.Error("wrong output")
						}
						weights := mine.Weights(3)
						if !harness.EqualOutputs(mine.Plain(t, weights), mine.Run(t, c, xpwc.MapOf(weights))) {
							t.Error("wrong output")
						}
					}
				})
			}
			wg.Wait()
			require.NoError(t, c.Save())
			if path != "" {
				require.Equal(t, 3+8+1, c.Stats().Entries, "each weight once")
			}
		})
	}
}

// The trailer is what ExecuTorch reads: the name is the weights' name directly followed by the bias' name.
func TestTheTrailerListsNoPackedWeights(t *testing.T) {
	path := harness.Path(t)
	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.NoError(t, c.Close())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	entries, version, err := format.DecodeTrailer(bytes.NewReader(file), uint64(len(file)))
	require.NoError(t, err)
	require.EqualValues(t, format.TrailerVersion, version)
	offset := uint64(len(file)) - format.TrailerSize(entries)
	require.Equal(t, []format.TrailerEntry{format.NativeTrailer(offset)}, entries)
}
