//go:build cgo

package xpwc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/mapped"
	"xpwc/internal/tests/optable"
	"xpwc/internal/writer"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// An observed start is one load of a model with a cache, and what the cache told of it.
type observed struct {
	stats     xpwc.Stats
	explained xpwc.Explanation
	events    []map[string]any // a JSON object each
}

// A load loads a model in a session of its own, up to the runtime.
type load func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime

// observe opens the cache, loads a model and closes all.
func observe(t *testing.T, path string, o xpwc.Options, data xpwc.DataMap, l load) (is observed) {
	t.Helper()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	c, err := xpwc.Open(path, &o)
	require.NoError(t, err)
	s, err := c.NewSession(data)
	require.NoError(t, err)
	r := l(t, s)
	require.NoError(t, s.Finalize())
	is.explained = s.Explain()
	require.NoError(t, r.Delete())
	require.NoError(t, s.Close())
	_ = c.Close()
	is.stats = c.Stats()
	for line := range strings.Lines(log.String()) {
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		is.events = append(is.events, e)
	}
	return is
}

// as loads the chain with more options for each kernel and bias.
func (m chain) as(options ...xpwc.LoadOption) load {
	return func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
		t.Helper()
		r, err := m.create(s, func(name string, given ...xpwc.LoadOption) ([]byte, error) {
			return s.Load(name, append(given, options...)...)
		})
		require.NoError(t, err)
		return r
	}
}

// onlyAs loads the chain with these options alone.
func (m chain) onlyAs(options ...xpwc.LoadOption) load {
	return func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
		t.Helper()
		load := func(name string, _ ...xpwc.LoadOption) ([]byte, error) { return s.Load(name, options...) }
		r, err := m.create(s, load)
		require.NoError(t, err)
		return r
	}
}

// packedFile is a cache file of three layers.
func packedFile(t *testing.T) (path string, data xpwc.DataMap) {
	t.Helper()
	path, data = cachePath(t), xpwc.MapOf(threeLayers.weights(1))
	observe(t, path, xpwc.Options{}, data, threeLayers.as())
	return path, data
}

// again is the start after the file was changed.
func again(change func(t *testing.T, path string)) func(t *testing.T) observed {
	return func(t *testing.T) observed {
		path, data := packedFile(t)
		change(t, path)
		return observe(t, path, xpwc.Options{}, data, threeLayers.as())
	}
}

// records changes each record of a file, with all checksums right.
func records(change func(r *format.Record)) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		resize(t, path, func(r *format.Record, payload []byte) []byte { change(r); return payload })
	}
}

// layouts makes a file one of another layout, with that description.
func layouts(describe func(description string) string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		relayout(t, path, func(l *format.Layout) {
			l.Fingerprint[0] ^= 1
			l.Description, l.Evidence = describe(l.Description), ""
		}, func(r *format.Record, payload []byte) []byte { r.Layout[0] ^= 1; return payload })
	}
}

// version makes a file one of another version of the format.
func version(v byte) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		content[8] = v
		binary.LittleEndian.PutUint64(content[32:], xxh3.Hash(content[:32]))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
}

// onMessage is a handler that calls do with the first event that begins so.
type onMessage struct {
	begins string
	once   *sync.Once
	do     func()
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }
func (h onMessage) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h onMessage) WithGroup(string) slog.Handler            { return h }
func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, h.begins) {
		h.once.Do(h.do)
	}
	return nil
}

// A stamped data map has tensors with that identity in place of their own.
type stamped struct {
	xpwc.DataMap
	identity xpwc.Identity
}

func (m stamped) Tensor(name string) (xpwc.Tensor, error) {
	tensor, err := m.DataMap.Tensor(name)
	digest := tensor.Identity.Digest
	tensor.Identity = m.identity
	tensor.Identity.Digest = digest
	return tensor, err
}

// reading is a next start whose tensors have this identity.
func reading(before, now xpwc.Identity) func(t *testing.T) observed {
	return func(t *testing.T) observed {
		path, data := cachePath(t), xpwc.MapOf(threeLayers.weights(1))
		observe(t, path, xpwc.Options{}, stamped{data, before}, threeLayers.as())
		is := observe(t, path, xpwc.Options{}, stamped{data, now}, threeLayers.as())
		require.EqualValues(t, 3, is.stats.Hits.Entries, "they are found all the same")
		require.Len(t, is.explained.Tensors, 5)
		return is
	}
}

// provocations has for each reason a start that has it.
var provocations = map[xpwc.Reason]func(t *testing.T) observed{
	xpwc.ReasonInMemory: func(t *testing.T) observed {
		return observe(t, "", xpwc.Options{}, xpwc.MapOf(threeLayers.weights(1)), threeLayers.as())
	},
	xpwc.ReasonNoFile: func(t *testing.T) observed {
		return observe(t, cachePath(t), xpwc.Options{}, xpwc.MapOf(threeLayers.weights(1)), threeLayers.as())
	},
	xpwc.ReasonForeign: again(version(format.Version - 1)),
	xpwc.ReasonDamaged: again(func(t *testing.T, path string) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, info.Size()-1))
	}),
	xpwc.ReasonName: func(t *testing.T) observed {
		path, _ := packedFile(t)
		other := chain{width: 96, layers: [][2]string{{"v1", "b1"}, {"w2", "b1"}}}
		return observe(t, path, xpwc.Options{}, xpwc.MapOf(other.weights(1)), other.as())
	},
	xpwc.ReasonLayout: again(layouts(func(string) string { return "riscv64 rvv, XNNPACK 01234567" })),
	xpwc.ReasonXNNPACK: func(t *testing.T) observed {
		if xnnpack.BuildIdentifier() == "" {
			t.Skip("this XNNPACK has no build identifier")
		}
		return again(layouts(func(description string) string {
			processor, _, _ := strings.Cut(description, ", XNNPACK ")
			return processor + ", XNNPACK 01234567"
		}))(t)
	},
	xpwc.ReasonFingerprint: again(records(func(r *format.Record) { r.FingerprintID ^= 1 })),
	xpwc.ReasonPacking: func(t *testing.T) observed {
		path, data := packedFile(t)
		return observe(t, path, xpwc.Options{}, data, threeLayers.onlyAs(xpwc.PackedAs(packing.Opaque([]byte("v2")))))
	},
	xpwc.ReasonContent: func(t *testing.T) observed {
		path, _ := packedFile(t)
		return observe(t, path, xpwc.Options{}, xpwc.MapOf(threeLayers.weights(2)), threeLayers.as())
	},
	xpwc.ReasonSize: again(func(t *testing.T, path string) {
		resize(t, path, func(_ *format.Record, payload []byte) []byte { return payload[:len(payload)-64] })
	}),
	xpwc.ReasonKey: func(t *testing.T) observed {
		most := writer.MaxSearched
		defer func() { writer.MaxSearched = most }()
		writer.MaxSearched = 2
		return again(records(func(r *format.Record) { r.FingerprintID ^= 1 }))(t)
	},

	xpwc.ReasonCompare: func(t *testing.T) observed {
		path, data := packedFile(t)
		return observe(t, path, xpwc.Options{}, data, threeLayers.as(xpwc.Compare()))
	},
	xpwc.ReasonNoPacking: func(t *testing.T) observed {
		path, data := cachePath(t), xpwc.MapOf(threeLayers.weights(1))
		observe(t, path, xpwc.Options{}, data, threeLayers.onlyAs(xpwc.Compare()))
		return observe(t, path, xpwc.Options{}, data, threeLayers.onlyAs(xpwc.Compare()))
	},
	xpwc.ReasonVariant: again(records(func(r *format.Record) { r.Flags |= format.Variant })),
	xpwc.ReasonSeed:    again(records(func(r *format.Record) { r.Seed++ })),
	xpwc.ReasonRepeated: func(t *testing.T) observed {
		tied := chain{width: 64, layers: [][2]string{{"w", "b"}, {"w", "b"}, {"v", "b"}}}
		return observe(t, cachePath(t), xpwc.Options{}, xpwc.MapOf(tied.weights(1)), tied.as())
	},
	xpwc.ReasonAmbiguous: func(t *testing.T) observed {
		m := chain{width: 64, layers: [][2]string{{"w", "b"}}}
		filter := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{32, 128}}
		in, out := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, 128}},
			xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, 32}}
		other := xpwc.PackedAs(xnnpack.FullyConnected{}.Packing(filter, xnnpack.Tensor{}, in, out))
		l := func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
			_, err := s.Load("w", other)
			require.NoError(t, err)
			return m.as()(t, s)
		}
		path, data := cachePath(t), xpwc.MapOf(m.weights(1))
		observe(t, path, xpwc.Options{}, data, l)
		// Its first start has not seen all uses, so that what it packed is a variant.
		records(func(r *format.Record) { r.Flags &^= format.Variant })(t, path)
		return observe(t, path, xpwc.Options{}, data, l)
	},
	xpwc.ReasonUnsized: func(t *testing.T) observed {
		use := kernelUse{op: packing.FullyConnected, types: everyDatatype[6], shape: []int{67, 38}}
		plain, err := computeWith(xnnpack.ForceFP16Inference, nil, nil, use)
		if errors.Is(err, xnnpack.UnsupportedHardware) {
			t.Skip(err)
		}
		require.NoError(t, err)
		path := cachePath(t)
		run := func() xpwc.Stats {
			return runPacked(t, path, xnnpack.ForceFP16Inference, identityOf(t, use), use, plain)
		}
		if run().Packed.Entries == 0 || lacksFingerprintIDs(t, path) {
			t.Skip("this XNNPACK's keys do not show it")
		}
		return observed{stats: run()}
	},
	xpwc.ReasonUnasked: func(t *testing.T) observed {
		path := cachePath(t)
		run := func() xpwc.Stats {
			c, err := xpwc.Open(path, nil)
			require.NoError(t, err)
			runCase(t, c, unaskedCase(t))
			require.NoError(t, c.Close())
			return c.Stats()
		}
		run()
		return observed{stats: run()}
	},

	xpwc.ReasonStamp: reading(xpwc.Identity{Source: "model", Stamp: "before"},
		xpwc.Identity{Source: "copy", Stamp: "now"}),
	xpwc.ReasonUnstamped:  reading(xpwc.Identity{}, xpwc.Identity{}),
	xpwc.ReasonOwner:      reading(xpwc.Identity{}, xpwc.Identity{NoStamp: xpwc.ReasonOwner}),
	xpwc.ReasonFileSystem: reading(xpwc.Identity{}, xpwc.Identity{NoStamp: xpwc.ReasonFileSystem}),
	xpwc.ReasonWritten: func(t *testing.T) observed {
		path := filepath.Join(t.TempDir(), "model")
		f, err := os.Create(path)
		require.NoError(t, err)
		defer f.Close()
		m, err := mapped.Open(path)
		require.NoError(t, err)
		defer m.Close()
		require.Empty(t, m.Stamp(), "it was written just now, and is open")
		return reading(xpwc.Identity{}, xpwc.Identity{NoStamp: xpwc.Reason(m.Unstamped())})(t)
	},

	xpwc.ReasonUnnamed: func(t *testing.T) observed {
		return observe(t, cachePath(t), xpwc.Options{}, nil, func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
			load, free := outside(threeLayers.weights(1))
			t.Cleanup(free)
			r, err := threeLayers.create(s, load)
			require.NoError(t, err)
			return r
		})
	},
	xpwc.ReasonReadOnly: func(t *testing.T) observed {
		data := xpwc.MapOf(threeLayers.weights(1))
		return observe(t, cachePath(t), xpwc.Options{ReadOnly: true}, data, threeLayers.as())
	},
	xpwc.ReasonBusy: func(t *testing.T) observed {
		path, end := packing3Layers(t)
		defer end()
		return observe(t, path, xpwc.Options{WriterWait: -1}, xpwc.MapOf(threeLayers.weights(2)), threeLayers.as())
	},
	xpwc.ReasonVersion: again(version(format.Version + 1)),
	xpwc.ReasonDisk: func(t *testing.T) observed {
		m := chain{width: 32, layers: [][2]string{{strings.Repeat("n", 65<<20), ""}}} // no index can list it
		return observe(t, cachePath(t), xpwc.Options{}, xpwc.MapOf(m.weights(1)), m.as())
	},

	xpwc.ReasonProcess: func(t *testing.T) observed {
		path, end := packing3Layers(t)
		waiting, done := make(chan struct{}), make(chan struct{})
		go func() { <-waiting; end(); close(done) }()
		var is observed
		message := onMessage{"waiting for another process", new(sync.Once), func() { close(waiting) }}
		o := xpwc.Options{Logger: slog.New(message)}
		c, err := xpwc.Open(path, &o)
		require.NoError(t, err)
		s, err := c.NewSession(xpwc.MapOf(threeLayers.weights(1)))
		require.NoError(t, err)
		r := threeLayers.as()(t, s)
		<-done
		require.NoError(t, s.Finalize())
		is.explained = s.Explain()
		require.Positive(t, is.explained.Waited)
		require.NoError(t, r.Delete())
		require.NoError(t, s.Close())
		require.NoError(t, c.Close())
		is.stats = c.Stats()
		return is
	},
	xpwc.ReasonSession: func(t *testing.T) (is observed) {
		c := openCache(t, cachePath(t), nil)
		data := xpwc.MapOf(threeLayers.weights(1))
		done := make(chan struct{})
		begin := sync.OnceValue(func() error {
			go func() {
				defer close(done)
				m := threeLayers.open(t, c, data)
				is.explained = m.session.Explain()
				m.close(t)
			}()
			for c.Stats().Waits == 0 {
				runtime.Gosched()
			}
			return nil
		})
		first := threeLayers.open(t, c, fillHook{data, func(string) error { return begin() }})
		<-done
		first.close(t)
		is.stats = c.Stats()
		is.explained.Weights = nil
		return is
	},
	xpwc.ReasonGrowth: func(t *testing.T) observed {
		path, data := cachePath(t), xpwc.MapOf(threeLayers.weights(1))
		var is observed
		for i := range 4 {
			require.Zero(t, is.stats.Reasons[xpwc.ReasonGrowth].Entries, "not yet")
			// As of a host that describes its kernels by addresses.
			id := packing.Opaque([]byte(fmt.Sprint("kernel at ", i)))
			is = observe(t, path, xpwc.Options{}, data, threeLayers.onlyAs(xpwc.PackedAs(id)))
			require.Zero(t, is.stats.Hits.Entries)
		}
		return is
	},
}

// Whatever makes a start slower than mapping is counted, is in the explanation, and is reported once.
func TestEachReasonForASlowStartIsCountedExplainedAndReported(t *testing.T) {
	for _, reason := range xpwc.Reasons() {
		t.Run(string(reason), func(t *testing.T) {
			provoke := provocations[reason]
			require.NotNil(t, provoke, "a reason needs a start that has it")
			is := provoke(t)
			require.Positive(t, is.stats.Reasons[reason].Entries)
			require.NotEmpty(t, reason.Kind())
			if is.explained.Weights == nil { // the test has no session at hand
				return
			}
			count, explained := is.explained.Reasons[reason]
			require.True(t, explained)
			if reason.Kind() != xpwc.Waited {
				require.Positive(t, count.Bytes)
			}
			because, remedy, _ := strings.Cut(reason.Text(), ". ")
			require.Contains(t, is.explained.String(), because[:len(because)-1])
			require.Contains(t, is.explained.String(), remedy)
			found := is.explained.Found()
			require.Equal(t, is.stats.Hits, found)
			if is.events == nil {
				return
			}
			reported := 0
			for _, e := range is.events {
				if e["reason"] == string(reason) {
					reported++
					if reason == xpwc.ReasonGrowth {
						require.Equal(t, slog.LevelWarn.String(), e["level"])
						require.Equal(t, "the cache file grows at each start", e["msg"])
					}
					require.EqualValues(t, count.Entries, e["entries"])
					require.EqualValues(t, count.Bytes, e["bytes"])
				}
			}
			require.Equal(t, 1, reported)
		})
	}
	require.Len(t, provocations, len(xpwc.Reasons()))
}

func TestAStartThatMapsAllHasNoReason(t *testing.T) {
	path, data := cachePath(t), xpwc.MapOf(threeLayers.weights(1))
	id := xpwc.Identity{Source: "model", Stamp: "1"}
	observe(t, path, xpwc.Options{}, stamped{data, id}, threeLayers.as())
	is := observe(t, path, xpwc.Options{}, stamped{data, id}, threeLayers.as())
	require.Empty(t, is.stats.Reasons)
	require.Empty(t, is.explained.Reasons)
	require.Empty(t, is.events)
	require.Len(t, is.explained.Weights, 3)
	require.Equal(t, "w1b1", is.explained.Weights[0].Name)
	require.Contains(t, is.explained.String(), "3 of 3 weights are found")
}

// Each look-up that misses has one reason.
func TestReasonsForMissesAddUpToMisses(t *testing.T) {
	for reason, provoke := range provocations {
		if kind := reason.Kind(); kind == xpwc.Read || kind == xpwc.Waited || reason == xpwc.ReasonUnasked {
			continue
		}
		t.Run(string(reason), func(t *testing.T) {
			is := provoke(t)
			misses := is.stats.Reasons[xpwc.ReasonUnnamed].Entries
			for r, count := range is.stats.Reasons {
				if r.Kind() == xpwc.Missed || r.Kind() == xpwc.Compared {
					misses += count.Entries
				}
			}
			if reason == xpwc.ReasonVersion || reason == xpwc.ReasonDisk {
				t.Skip("one of private memory is the reason for the miss too")
			}
			require.Equal(t, is.stats.Misses, misses)
		})
	}
}

// What several machines and several models pack into one file is no growth.
func TestAFileOfSeveralMachinesAndModelsDoesNotGrowAtEachStart(t *testing.T) {
	t.Run("machines", func(t *testing.T) {
		path, data := packedFile(t)
		for i := range 5 {
			layouts(func(string) string { return fmt.Sprint("machine ", i) })(t, path)
			is := observe(t, path, xpwc.Options{}, data, threeLayers.as())
			require.NotContains(t, is.stats.Reasons, xpwc.ReasonGrowth)
			if is.stats.Packed.Entries > 0 {
				require.Contains(t, is.stats.Reasons, xpwc.ReasonLayout)
			}
		}
	})
	t.Run("models with the same names", func(t *testing.T) {
		path := cachePath(t)
		for i := range uint32(6) {
			is := observe(t, path, xpwc.Options{}, xpwc.MapOf(threeLayers.weights(i)), threeLayers.as())
			require.EqualValues(t, 3, is.stats.Packed.Entries)
			require.NotContains(t, is.stats.Reasons, xpwc.ReasonGrowth)
		}
	})
	t.Run("signatures", func(t *testing.T) {
		path := cachePath(t)
		for i := range 3 {
			m := chain{width: 96, layers: [][2]string{{fmt.Sprint("w", i), ""}}}
			weights := map[string][]byte{fmt.Sprint("w", i): floats(96*96, 1)}
			is := observe(t, path, xpwc.Options{}, xpwc.MapOf(weights), m.as())
			require.NotContains(t, is.stats.Reasons, xpwc.ReasonGrowth)
		}
	})
}

// packing3Layers returns a file that another process, as far as the cache can tell, packs three layers into until end.
func packing3Layers(t *testing.T) (path string, end func()) {
	t.Helper()
	path = cachePath(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	link := path + ".link"
	if err := os.Link(path, link); err != nil {
		t.Skip(err)
	}
	c, err := xpwc.Open(link, nil)
	require.NoError(t, err)
	s, err := c.NewSession(xpwc.MapOf(threeLayers.weights(1)))
	require.NoError(t, err)
	r, err := threeLayers.create(s, s.Load)
	require.NoError(t, err)
	return path, func() {
		require.NoError(t, s.Finalize())
		require.NoError(t, r.Delete())
		require.NoError(t, s.Close())
		require.NoError(t, c.Close())
	}
}

// unaskedCase is an operator that XNNPACK packs without a look-up.
func unaskedCase(t *testing.T) optable.Case {
	t.Helper()
	for _, op := range optable.Cases() {
		if !op.Announced && op.Packs > 0 {
			if _, err := op.Run(nil, nil, nil); err == nil {
				return op
			}
		}
	}
	t.Skip("this XNNPACK looks all up")
	return optable.Case{}
}
