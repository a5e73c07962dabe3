package files

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/ask"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// How costs grow with the number of entries. The entries are tiny, so that what is measured is what each one costs.
var growth = []int{1e3, 1e4, 1e5, 1e6}

const tinyBytes = 64

// A tinyModel is a data map of n tensors of tinyBytes, as a mapped model file has them.
type tinyModel struct {
	names   []string
	content []byte
}

func newTinyModel(n int) *tinyModel {
	m := &tinyModel{make([]string, n), make([]byte, n*tinyBytes)}
	for i := range m.names {
		m.names[i] = fmt.Sprintf("layers.%d.weight", i)
		binary.LittleEndian.PutUint64(m.content[i*tinyBytes:], uint64(i)+1)
	}
	return m
}

func (m *tinyModel) bytes(i int) []byte {
	return m.content[i*tinyBytes : (i+1)*tinyBytes : (i+1)*tinyBytes]
}

func (m *tinyModel) Tensor(name string) (xpwc.Tensor, error) {
	number, _, _ := strings.Cut(strings.TrimPrefix(name, "layers."), ".")
	i, err := strconv.Atoi(number)
	if err != nil {
		return xpwc.Tensor{}, xpwc.ErrUnknownTensor
	}
	return xpwc.Tensor{Data: m.bytes(i), Identity: xpwc.Identity{Source: "/models/tiny", Stamp: name}}, nil
}

// session begins a session with all tensors loaded.
func (m *tinyModel) session(t testing.TB, c *xpwc.Cache) *xpwc.Session {
	t.Helper()
	s, err := c.NewSession(m)
	require.NoError(t, err)
	for _, name := range m.names {
		if _, err := s.Load(name, xpwc.Believe()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// file makes the file that packing all tensors would.
func (m *tinyModel) file(t testing.TB) (path string) {
	t.Helper()
	layout, err := ask.Layout()
	require.NoError(t, err)
	records := make([]format.Record, len(m.names))
	payloads := make([]byte, len(m.names)*format.Alignment)
	for i := range records {
		payload := payloads[i*format.Alignment:][:tinyBytes]
		copy(payload, m.bytes(i))
		records[i] = format.Record{
			Key:     format.Key{Layout: layout.Fingerprint, Kernel: m.names[i]},
			Seed:    1,
			Offset:  uint64(format.HeaderSize + i*format.Alignment),
			Size:    tinyBytes,
			Sum:     digest.Of(payload),
			Source:  digest.OfStrings("/models/tiny"),
			Stamps:  format.Hashes{Kernel: digest.OfStrings("/models/tiny", m.names[i])},
			Digests: format.Hashes{Kernel: xpwc.DigestOf(m.bytes(i))},
		}
	}
	path = harness.Path(t)
	st := store.New(path, osdisk.Files{}, 0)
	begun, err := st.Begin()
	require.NoError(t, err)
	require.True(t, begun)
	r, err := st.Reserve(uint64(len(payloads)), 0)
	require.NoError(t, err)
	copy(r.Data, payloads)
	store.Filled(r)
	require.NoError(t, r.Region.Release())
	plan, err := st.PrepareCommit([]format.Layout{layout}, records)
	require.NoError(t, err)
	inForce, err := st.Conclude(plan, plan.Write())
	require.NoError(t, err)
	require.True(t, inForce)
	require.NoError(t, st.Close())
	return path
}

func forGrowth(b *testing.B, sizes []int, run func(b *testing.B, n int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%.0e", float64(n)), func(b *testing.B) { run(b, n) })
	}
}

// BenchmarkOpen is what opening a file of many entries takes, and leaves on the heap.
func BenchmarkOpen(b *testing.B) {
	forGrowth(b, growth, func(b *testing.B, n int) {
		path := newTinyModel(n).file(b)
		var opening time.Duration
		heap := heapBytes()
		for b.Loop() {
			start := time.Now()
			c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
			opening += time.Since(start)
			require.NoError(b, err)
			b.StopTimer()
			if heap != 0 {
				b.ReportMetric(float64(heapBytes()-heap)/float64(n), "heap-B/entry")
				heap = 0
			}
			require.NoError(b, c.Close())
			b.StartTimer()
		}
		b.ReportMetric(float64(opening.Microseconds())/1000/float64(b.N), "ms/open")
	})
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkPackTiny is what each of many small entries costs, from loading its tensor until it is on stable storage.
func BenchmarkPackTiny(b *testing.B) {
	forGrowth(b, growth[1:], func(b *testing.B, n int) {
		m := newTinyModel(n)
		var loading, packing, finalizing, saving, processor time.Duration
		for b.Loop() {
			path := harness.Path(b)
			c, err := xpwc.Open(path, nil)
			require.NoError(b, err)
			start, used := time.Now(), harness.ProcessorTime()
			since := func() time.Duration { d := time.Since(start); start = time.Now(); return d }
			s := m.session(b, c)
			loading += since()
			for i := range n {
				kernel := harness.Address(m.bytes(i))
				if harness.LookUp(s, 1, kernel, 0) != harness.NotFound {
					b.Fatal("found in an empty cache")
				}
				space := harness.Reserve(s, tinyBytes)
				copy(space, m.bytes(i))
				harness.Insert(s, 1, kernel, 0, harness.Address(space), tinyBytes)
			}
			packing += since()
			err = s.Finalize()
			finalizing += since()
			require.NoError(b, err)
			require.NoError(b, c.Save())
			saving += since()
			processor += harness.ProcessorTime() - used
			b.StopTimer()
			require.NoError(b, s.Close())
			require.NoError(b, c.Close())
			require.Equal(b, n, c.Stats().Entries)
			require.NoError(b, os.Remove(path))
			b.StartTimer()
		}
		for name, took := range map[string]time.Duration{"load": loading, "pack": packing, "finalize": finalizing,
			"save": saving, "all": loading + packing + finalizing + saving, "processor": processor} {
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*n), name+"-ns/entry")
		}
	})
}

// BenchmarkLookUpGrowth measures a cache hit on a thread of Go's, for a model of a thousand weights in files with more
// and more entries: the first hit of each entry in the process, and hits of later sessions. The weights are scattered
// in the file, or adjacent like weights that were packed together.
func BenchmarkLookUpGrowth(b *testing.B) {
	forGrowth(b, growth, func(b *testing.B, n int) {
		complete := newTinyModel(n)
		path := complete.file(b)
		const weights = 1000
		lookUp := func(m *tinyModel, kernels []uintptr, c *xpwc.Cache) (took time.Duration) {
			s := m.session(b, c)
			start := time.Now()
			for _, kernel := range kernels {
				if harness.LookUp(s, 1, kernel, 0) == harness.NotFound {
					b.Fatal("not found")
				}
			}
			took = time.Since(start)
			err := s.Finalize()
			require.NoError(b, err)
			require.NoError(b, s.Close())
			return took
		}
		const anywhere, together = "", "-together"
		first, steady := map[string]time.Duration{}, time.Duration(math.MaxInt64)
		somewhere := rand.IntN(n - weights + 1)
		chosen := map[string][]int{anywhere: rand.Perm(n)[:weights], together: nil}
		for i := range weights {
			chosen[together] = append(chosen[together], somewhere+i)
		}
		for b.Loop() {
			for place, tensors := range chosen {
				m := &tinyModel{make([]string, weights), complete.content}
				kernels := make([]uintptr, weights)
				for i, offset := range tensors {
					m.names[i], kernels[i] = complete.names[offset], harness.Address(complete.bytes(offset))
				}
				c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
				require.NoError(b, err)
				took := lookUp(m, kernels, c)
				if minimum, hasKnown := first[place]; !hasKnown || took < minimum { // other load only ever adds
					first[place] = took
				}
				for range 10 {
					steady = min(steady, lookUp(m, kernels, c))
				}
				require.NoError(b, c.Close())
			}
		}
		for place, took := range first {
			b.ReportMetric(float64(took.Nanoseconds())/weights, "first"+place+"-ns/hit")
		}
		b.ReportMetric(float64(steady.Nanoseconds())/weights, "steady-ns/hit")
	})
}

// BenchmarkFind is the part of a look-up that finds what the file has under a key.
func BenchmarkFind(b *testing.B) {
	forGrowth(b, growth, func(b *testing.B, n int) {
		m := newTinyModel(n)
		c, err := xpwc.Open(m.file(b), &xpwc.Options{Strict: true})
		require.NoError(b, err)
		layout, err := ask.Layout()
		require.NoError(b, err)
		key := format.Key{Layout: layout.Fingerprint, Kernel: m.names[n/2]}
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range harness.Writer(c).Index().Find(key) {
				require.NoError(b, err)
				n++
			}
			if n != 1 {
				b.Fatal("not found")
			}
		}
		b.StopTimer()
		require.NoError(b, c.Close())
	})
}
