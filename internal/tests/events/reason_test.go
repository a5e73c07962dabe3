//go:build cgo

package events

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
	"xpwc/internal/tests/harness"
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
func observe(t *testing.T, path string, o xpwc.Options, data xpwc.DataMap, l load) (start observed) {
	t.Helper()
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	c, err := xpwc.Open(path, &o)
	require.NoError(t, err)
	s, err := c.NewSession(data)
	require.NoError(t, err)
	r := l(t, s)
	require.NoError(t, s.Finalize())
	start.explained = s.Explain()
	require.NoError(t, r.Delete())
	require.NoError(t, s.Close())
	_ = c.Close()
	start.stats = c.Stats()
	for line := range strings.Lines(log.String()) {
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		start.events = append(start.events, e)
	}
	return start
}

// loadWith loads the chain with more options for each kernel and bias.
func loadWith(m harness.Chain, options ...xpwc.LoadOption) load {
	return func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
		t.Helper()
		r, err := m.Create(s, func(name string, opts ...xpwc.LoadOption) ([]byte, error) {
			return s.Load(name, append(opts, options...)...)
		})
		require.NoError(t, err)
		return r
	}
}

// loadOnlyWith loads the chain with these options alone.
func loadOnlyWith(m harness.Chain, options ...xpwc.LoadOption) load {
	return func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
		t.Helper()
		load := func(name string, _ ...xpwc.LoadOption) ([]byte, error) { return s.Load(name, options...) }
		r, err := m.Create(s, load)
		require.NoError(t, err)
		return r
	}
}

// packedFile is a cache file of three layers.
func packedFile(t *testing.T) (path string, data xpwc.DataMap) {
	t.Helper()
	path, data = harness.Path(t), xpwc.MapOf(harness.ThreeLayers.Weights(1))
	observe(t, path, xpwc.Options{}, data, loadWith(harness.ThreeLayers))
	return path, data
}

// relaunch is the start after the file was changed.
func relaunch(change func(t *testing.T, path string)) func(t *testing.T) observed {
	return func(t *testing.T) observed {
		path, data := packedFile(t)
		change(t, path)
		return observe(t, path, xpwc.Options{}, data, loadWith(harness.ThreeLayers))
	}
}

// records changes each record of a file, with all checksums right.
func records(change func(r *format.Record)) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		harness.Resize(t, path, func(r *format.Record, payload []byte) []byte { change(r); return payload })
	}
}

// layouts makes a file one of another layout, with that description.
func layouts(describe func(description string) string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		harness.Relayout(t, path, func(l *format.Layout) {
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

func (h onMessage) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h onMessage) WithGroup(string) slog.Handler { return h }

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
func reading(previous, current xpwc.Identity) func(t *testing.T) observed {
	return func(t *testing.T) observed {
		path, data := harness.Path(t), xpwc.MapOf(harness.ThreeLayers.Weights(1))
		observe(t, path, xpwc.Options{}, stamped{data, previous}, loadWith(harness.ThreeLayers))
		start := observe(t, path, xpwc.Options{}, stamped{data, current}, loadWith(harness.ThreeLayers))
		require.EqualValues(t, 3, start.stats.Hits.Entries, "they are found all the same")
		require.Len(t, start.explained.Tensors, 5)
		return start
	}
}

// The header has room for two generations. With a bit flipped in the only one, all that was packed is out of reach, and
// "no file" would send the user to look for a wrong path.
func TestADamagedOnlySlotIsReportedAsDamage(t *testing.T) {
	start := relaunch(func(t *testing.T, path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		h, err := format.DecodeHeader(content[:format.HeaderSize])
		require.NoError(t, err)
		require.EqualValues(t, 1, h.Current.Generation)
		content[h.Slots[1].Offset] ^= 4
		require.NoError(t, os.WriteFile(path, content, 0o600))
	})(t)
	require.Contains(t, start.explained.Reasons, xpwc.ReasonDamaged)
	require.NotContains(t, start.explained.Reasons, xpwc.ReasonNoFile)
}

// provocations has for each reason a start that has it.
var provocations = map[xpwc.Reason]func(t *testing.T) observed{
	xpwc.ReasonInMemory: func(t *testing.T) observed {
		return observe(t, "", xpwc.Options{}, xpwc.MapOf(harness.ThreeLayers.Weights(1)), loadWith(harness.ThreeLayers))
	},
	xpwc.ReasonNoFile: func(t *testing.T) observed {
		return observe(t, harness.Path(t), xpwc.Options{}, xpwc.MapOf(harness.ThreeLayers.Weights(1)),
			loadWith(harness.ThreeLayers))
	},
	xpwc.ReasonForeign: relaunch(version(format.Version - 1)),
	xpwc.ReasonDamaged: relaunch(func(t *testing.T, path string) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, info.Size()-1))
	}),
	xpwc.ReasonName: func(t *testing.T) observed {
		path, _ := packedFile(t)
		sibling := harness.Chain{Width: 96, Layers: [][2]string{{"v1", "b1"}, {"w2", "b1"}}}
		return observe(t, path, xpwc.Options{}, xpwc.MapOf(sibling.Weights(1)), loadWith(sibling))
	},
	xpwc.ReasonLayout: relaunch(layouts(func(string) string { return "riscv64 rvv, XNNPACK 01234567" })),
	xpwc.ReasonXNNPACK: func(t *testing.T) observed {
		if xnnpack.BuildIdentifier() == "" {
			t.Skip("this XNNPACK has no build identifier")
		}
		return relaunch(layouts(func(description string) string {
			processor, _, _ := strings.Cut(description, ", XNNPACK ")
			return processor + ", XNNPACK 01234567"
		}))(t)
	},
	xpwc.ReasonFingerprint: relaunch(records(func(r *format.Record) { r.FingerprintID ^= 1 })),
	xpwc.ReasonPacking: func(t *testing.T) observed {
		path, data := packedFile(t)
		return observe(t, path, xpwc.Options{}, data, loadOnlyWith(harness.ThreeLayers,
			xpwc.PackedAs(packing.Opaque([]byte("v2")))))
	},
	xpwc.ReasonContent: func(t *testing.T) observed {
		path, _ := packedFile(t)
		return observe(t, path, xpwc.Options{}, xpwc.MapOf(harness.ThreeLayers.Weights(2)),
			loadWith(harness.ThreeLayers))
	},
	xpwc.ReasonSize: relaunch(func(t *testing.T, path string) {
		harness.Resize(t, path, func(_ *format.Record, payload []byte) []byte { return payload[:len(payload)-64] })
	}),
	xpwc.ReasonKey: func(t *testing.T) observed {
		highest := writer.MaxSearched
		defer func() { writer.MaxSearched = highest }()
		writer.MaxSearched = 2
		return relaunch(records(func(r *format.Record) { r.FingerprintID ^= 1 }))(t)
	},

	xpwc.ReasonCompare: func(t *testing.T) observed {
		path, data := packedFile(t)
		return observe(t, path, xpwc.Options{}, data, loadWith(harness.ThreeLayers, xpwc.Compare()))
	},
	xpwc.ReasonNoPacking: func(t *testing.T) observed {
		path, data := harness.Path(t), xpwc.MapOf(harness.ThreeLayers.Weights(1))
		observe(t, path, xpwc.Options{}, data, loadOnlyWith(harness.ThreeLayers, xpwc.Compare()))
		return observe(t, path, xpwc.Options{}, data, loadOnlyWith(harness.ThreeLayers, xpwc.Compare()))
	},
	xpwc.ReasonVariant: relaunch(records(func(r *format.Record) { r.Flags |= format.Variant })),
	xpwc.ReasonSeed:    relaunch(records(func(r *format.Record) { r.Seed++ })),
	xpwc.ReasonRepeated: func(t *testing.T) observed {
		tied := harness.Chain{Width: 64, Layers: [][2]string{{"w", "b"}, {"w", "b"}, {"v", "b"}}}
		return observe(t, harness.Path(t), xpwc.Options{}, xpwc.MapOf(tied.Weights(1)), loadWith(tied))
	},
	xpwc.ReasonAmbiguous: func(t *testing.T) observed {
		m := harness.Chain{Width: 64, Layers: [][2]string{{"w", "b"}}}
		filter := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{32, 128}}
		in, out := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, 128}},
			xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, 32}}
		different := xpwc.PackedAs(xnnpack.FullyConnected{}.Packing(filter, xnnpack.Tensor{}, in, out))
		l := func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
			_, err := s.Load("w", different)
			require.NoError(t, err)
			return loadWith(m)(t, s)
		}
		path, data := harness.Path(t), xpwc.MapOf(m.Weights(1))
		observe(t, path, xpwc.Options{}, data, l)
		// Its first start has not seen all uses, so that what it packed is a variant.
		records(func(r *format.Record) { r.Flags &^= format.Variant })(t, path)
		return observe(t, path, xpwc.Options{}, data, l)
	},
	xpwc.ReasonUnsized: func(t *testing.T) observed {
		use := harness.KernelUse{Op: packing.FullyConnected, Types: harness.Datatypes[6], Shape: []int{67, 38}}
		plain, err := harness.ComputeWith(xnnpack.ForceFP16Inference, nil, nil, use)
		if errors.Is(err, xnnpack.UnsupportedHardware) {
			t.Skip(err)
		}
		require.NoError(t, err)
		path := harness.Path(t)
		run := func() xpwc.Stats {
			return harness.RunPacked(t, path, xnnpack.ForceFP16Inference, harness.PackingIdentity(t, use), use, plain)
		}
		if run().Packed.Entries == 0 || harness.LacksFingerprintIDs(t, path) {
			t.Skip("this XNNPACK's keys do not show it")
		}
		return observed{stats: run()}
	},
	xpwc.ReasonUnasked: func(t *testing.T) observed {
		path := harness.Path(t)
		run := func() xpwc.Stats {
			c, err := xpwc.Open(path, nil)
			require.NoError(t, err)
			harness.RunCase(t, c, unaskedCase(t))
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
		return observe(t, harness.Path(t), xpwc.Options{}, nil, func(t *testing.T, s *xpwc.Session) *xnnpack.Runtime {
			load, free := harness.OutsideMemory(harness.ThreeLayers.Weights(1))
			t.Cleanup(free)
			r, err := harness.ThreeLayers.Create(s, load)
			require.NoError(t, err)
			return r
		})
	},
	xpwc.ReasonReadOnly: func(t *testing.T) observed {
		data := xpwc.MapOf(harness.ThreeLayers.Weights(1))
		return observe(t, harness.Path(t), xpwc.Options{ReadOnly: true}, data, loadWith(harness.ThreeLayers))
	},
	xpwc.ReasonBusy: func(t *testing.T) observed {
		path, end := packing3Layers(t)
		defer end()
		return observe(t, path, xpwc.Options{WriterWait: -1}, xpwc.MapOf(harness.ThreeLayers.Weights(2)),
			loadWith(harness.ThreeLayers))
	},
	xpwc.ReasonVersion: relaunch(version(format.Version + 1)),
	xpwc.ReasonDisk: func(t *testing.T) observed {
		m := harness.Chain{Width: 32, Layers: [][2]string{{strings.Repeat("n", 65<<20), ""}}} // no index can list it
		return observe(t, harness.Path(t), xpwc.Options{}, xpwc.MapOf(m.Weights(1)), loadWith(m))
	},

	xpwc.ReasonProcess: func(t *testing.T) observed {
		path, end := packing3Layers(t)
		waiting, done := make(chan struct{}), make(chan struct{})
		go func() { <-waiting; end(); close(done) }()
		var start observed
		message := onMessage{"waiting for another process", new(sync.Once), func() { close(waiting) }}
		o := xpwc.Options{Logger: slog.New(message)}
		c, err := xpwc.Open(path, &o)
		require.NoError(t, err)
		s, err := c.NewSession(xpwc.MapOf(harness.ThreeLayers.Weights(1)))
		require.NoError(t, err)
		r := loadWith(harness.ThreeLayers)(t, s)
		<-done
		require.NoError(t, s.Finalize())
		start.explained = s.Explain()
		require.Positive(t, start.explained.Waited)
		require.NoError(t, r.Delete())
		require.NoError(t, s.Close())
		require.NoError(t, c.Close())
		start.stats = c.Stats()
		return start
	},
	xpwc.ReasonSession: func(t *testing.T) (start observed) {
		c := harness.OpenCache(t, harness.Path(t), nil)
		data := xpwc.MapOf(harness.ThreeLayers.Weights(1))
		done := make(chan struct{})
		begin := sync.OnceValue(func() error {
			go func() {
				defer close(done)
				m := harness.ThreeLayers.Open(t, c, data)
				start.explained = m.Session.Explain()
				m.MustClose(t)
			}()
			for c.Stats().Waits == 0 {
				runtime.Gosched()
			}
			return nil
		})
		first := harness.ThreeLayers.Open(t, c, harness.FillHook{DataMap: data,
			BeforeFill: func(string) error { return begin() }})
		<-done
		first.MustClose(t)
		start.stats = c.Stats()
		start.explained.Weights = nil
		return start
	},
	xpwc.ReasonGrowth: func(t *testing.T) observed {
		path, data := harness.Path(t), xpwc.MapOf(harness.ThreeLayers.Weights(1))
		var start observed
		for i := range 4 {
			require.Zero(t, start.stats.Reasons[xpwc.ReasonGrowth].Entries, "not yet")
			// As of a host that describes its kernels by addresses.
			id := packing.Opaque([]byte(fmt.Sprint("kernel at ", i)))
			start = observe(t, path, xpwc.Options{}, data, loadOnlyWith(harness.ThreeLayers, xpwc.PackedAs(id)))
			require.Zero(t, start.stats.Hits.Entries)
		}
		return start
	},
}

// Whatever makes a start slower than mapping is counted, is in the explanation, and is reported once.
func TestEachReasonForASlowStartIsReported(t *testing.T) {
	for _, reason := range xpwc.Reasons() {
		t.Run(string(reason), func(t *testing.T) {
			provoke := provocations[reason]
			require.NotNil(t, provoke, "a reason needs a start that has it")
			start := provoke(t)
			require.Positive(t, start.stats.Reasons[reason].Entries)
			require.NotEmpty(t, reason.Kind())
			if start.explained.Weights == nil { // the test has no session at hand
				return
			}
			count, explained := start.explained.Reasons[reason]
			require.True(t, explained)
			if reason.Kind() != xpwc.Waited {
				require.Positive(t, count.Bytes)
			}
			because, remedy, _ := strings.Cut(reason.Text(), ". ")
			require.Contains(t, start.explained.String(), because[:len(because)-1])
			require.Contains(t, start.explained.String(), remedy)
			hits := start.explained.Found()
			require.Equal(t, start.stats.Hits, hits)
			if start.events == nil {
				return
			}
			reported := 0
			for _, e := range start.events {
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

func TestAFullyWarmStartHasNoReason(t *testing.T) {
	path, data := harness.Path(t), xpwc.MapOf(harness.ThreeLayers.Weights(1))
	id := xpwc.Identity{Source: "model", Stamp: "1"}
	observe(t, path, xpwc.Options{}, stamped{data, id}, loadWith(harness.ThreeLayers))
	start := observe(t, path, xpwc.Options{}, stamped{data, id}, loadWith(harness.ThreeLayers))
	require.Empty(t, start.stats.Reasons)
	require.Empty(t, start.explained.Reasons)
	require.Empty(t, start.events)
	require.Len(t, start.explained.Weights, 3)
	require.Equal(t, "w1b1", start.explained.Weights[0].Name)
	require.Contains(t, start.explained.String(), "3 of 3 weights are found")
}

// Each look-up that misses has one reason.
func TestReasonsAddUpToMisses(t *testing.T) {
	for reason, provoke := range provocations {
		if kind := reason.Kind(); kind == xpwc.Read || kind == xpwc.Waited || reason == xpwc.ReasonUnasked {
			continue
		}
		t.Run(string(reason), func(t *testing.T) {
			start := provoke(t)
			misses := start.stats.Reasons[xpwc.ReasonUnnamed].Entries
			for r, count := range start.stats.Reasons {
				if r.Kind() == xpwc.Missed || r.Kind() == xpwc.Compared {
					misses += count.Entries
				}
			}
			if reason == xpwc.ReasonVersion || reason == xpwc.ReasonDisk {
				t.Skip("one of private memory is the reason for the miss too")
			}
			require.Equal(t, start.stats.Misses, misses)
		})
	}
}

// What several machines and several models pack into one file is no growth.
func TestAFileOfSeveralMachinesDoesNotGrowAtEachStart(t *testing.T) {
	t.Run("machines", func(t *testing.T) {
		path, data := packedFile(t)
		for i := range 5 {
			layouts(func(string) string { return fmt.Sprint("machine ", i) })(t, path)
			start := observe(t, path, xpwc.Options{}, data, loadWith(harness.ThreeLayers))
			require.NotContains(t, start.stats.Reasons, xpwc.ReasonGrowth)
			if start.stats.Packed.Entries > 0 {
				require.Contains(t, start.stats.Reasons, xpwc.ReasonLayout)
			}
		}
	})
	t.Run("models with the same names", func(t *testing.T) {
		path := harness.Path(t)
		for i := range uint32(6) {
			start := observe(t, path, xpwc.Options{}, xpwc.MapOf(harness.ThreeLayers.Weights(i)),
				loadWith(harness.ThreeLayers))
			require.EqualValues(t, 3, start.stats.Packed.Entries)
			require.NotContains(t, start.stats.Reasons, xpwc.ReasonGrowth)
		}
	})
	t.Run("signatures", func(t *testing.T) {
		path := harness.Path(t)
		for i := range 3 {
			m := harness.Chain{Width: 96, Layers: [][2]string{{fmt.Sprint("w", i), ""}}}
			weights := map[string][]byte{fmt.Sprint("w", i): harness.Floats(96*96, 1)}
			start := observe(t, path, xpwc.Options{}, xpwc.MapOf(weights), loadWith(m))
			require.NotContains(t, start.stats.Reasons, xpwc.ReasonGrowth)
		}
	})
}

// packing3Layers returns a file that another process, as far as the cache can tell, packs three layers into until end.
func packing3Layers(t *testing.T) (path string, end func()) {
	t.Helper()
	path = harness.Path(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	link := path + ".link"
	if err := os.Link(path, link); err != nil {
		t.Skip(err)
	}
	c, err := xpwc.Open(link, nil)
	require.NoError(t, err)
	s, err := c.NewSession(xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.NoError(t, err)
	r, err := harness.ThreeLayers.Create(s, s.Load)
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
