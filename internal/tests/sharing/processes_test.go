//go:build cgo && unix

package sharing

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// What a child is to do, in the variables of its environment besides envDir.
const (
	envRole = "XPWC_TEST_ROLE"
	envWait = "XPWC_TEST_WAIT" // Options.WriterWait
)

var sixLayers = harness.Chain{Width: 160, Layers: [][2]string{
	{"w1", "b1"}, {"w2", ""}, {"w3", "b3"}, {"w4", "b4"}, {"w5", "b5"}, {"w6", "b6"},
}}

// A report is a child's account of its run.
type report struct {
	Output               string // digest
	Hits, Misses, Packed int64
	PackedBytes          int64
	Private              map[xpwc.Reason]xpwc.Count
	Errors               string
}

func digestOfOutput(output []float32) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, output)))
}

// runAsChild runs the model on the directory's cache and prints a report. In the role "writer" it stops at the first
// entry it has packed, until a line arrives on its standard input or that is closed.
func runAsChild(t *testing.T, dir string) {
	options := &xpwc.Options{}
	var err error
	if wait := os.Getenv(envWait); wait != "" {
		options.WriterWait, err = time.ParseDuration(wait)
		require.NoError(t, err)
	}
	switch os.Getenv(envRole) {
	case "writer":
		var once sync.Once
		options.Progress = func(xpwc.Progress) {
			once.Do(func() {
				fmt.Println("packing")
				_, _ = os.Stdin.Read(make([]byte, 1))
			})
		}
	case "together":
		// XNNPACK and the layout are ready
		sixLayers.Run(t, harness.OpenCache(t, "", nil), xpwc.MapOf(sixLayers.Weights(1)))
		fmt.Println("ready")
		_, err := io.ReadAll(os.Stdin)
		require.NoError(t, err)
	}
	c := harness.OpenCache(t, filepath.Join(dir, "cache"), options)
	fmt.Println("opened")
	output := sixLayers.Run(t, c, xpwc.MapOf(sixLayers.Weights(1)))
	require.NoError(t, c.Save())
	s := c.Stats()
	r := report{
		Output: digestOfOutput(output),
		Hits:   s.Hits.Entries, Misses: s.Misses, Packed: s.Packed.Entries, PackedBytes: s.Packed.Bytes,
		Private: s.Private,
	}
	if s.Damaged != nil || s.LastError != nil {
		r.Errors = fmt.Sprint(s.Damaged, s.LastError)
	}
	line, err := json.Marshal(r)
	require.NoError(t, err)
	fmt.Println("report", string(line))
}

func startModel(t *testing.T, dir, role, wait string, input *os.File) *harness.Child {
	return harness.StartChild(t, t.Name(), input, harness.EnvDir+"="+dir, envRole+"="+role, envWait+"="+wait)
}

// reported waits until a child has ended well and returns its report.
func reported(t *testing.T, c *harness.Child) (r report) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(c.Await(t, "report")), &r))
	c.Pass(t)
	return r
}

// requireOneCopy requires that the file holds everything once, and that the next start finds it.
func requireOneCopy(t *testing.T, dir string, payload int64) {
	t.Helper()
	c := harness.OpenCache(t, filepath.Join(dir, "cache"), &xpwc.Options{Strict: true})
	tensors := sixLayers.Weights(1)
	require.Equal(t, sixLayers.Plain(t, tensors), sixLayers.Run(t, c, xpwc.MapOf(tensors)))
	s := c.Stats()
	require.Zero(t, s.Misses)
	require.Equal(t, len(sixLayers.Layers), s.Entries)
	require.Equal(t, payload, s.PayloadBytes)
	require.Zero(t, s.DeadBytes)
	require.NoError(t, c.Close())
}

func TestOneOfSeveralStartingProcessesPacks(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		runAsChild(t, dir)
		return
	}
	want := digestOfOutput(sixLayers.Plain(t, sixLayers.Weights(1)))
	layers := int64(len(sixLayers.Layers))
	for range 5 {
		dir := t.TempDir()
		start, release, err := os.Pipe()
		require.NoError(t, err)
		var children []*harness.Child
		for range 8 {
			children = append(children, startModel(t, dir, "together", "5m", start))
		}
		require.NoError(t, start.Close())
		for _, c := range children {
			c.Await(t, "ready")
		}
		require.NoError(t, release.Close())
		packed := int64(0)
		for _, c := range children {
			r := reported(t, c)
			require.Equal(t, want, r.Output)
			require.Empty(t, r.Errors)
			require.Empty(t, r.Private)
			if r.Packed > 0 {
				require.Zero(t, packed, "two have packed")
				packed = r.PackedBytes
				require.Equal(t, layers, r.Packed)
				continue
			}
			require.Equal(t, layers, r.Hits)
			require.Zero(t, r.Misses)
		}
		requireOneCopy(t, dir, packed)
	}
}

func TestAnotherProcessTakesOverFromAKilledWriter(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		runAsChild(t, dir)
		return
	}
	dir, want := t.TempDir(), digestOfOutput(sixLayers.Plain(t, sixLayers.Weights(1)))
	writer := startModel(t, dir, "writer", "", nil)
	writer.Await(t, "packing")
	var waiting []*harness.Child
	for range 3 {
		c := startModel(t, dir, "", "5m", nil)
		c.Await(t, "opened")
		waiting = append(waiting, c)
	}
	c := harness.OpenCache(t, filepath.Join(dir, "cache"), &xpwc.Options{WriterWait: -1})
	require.ErrorIs(t, c.Compact(), xpwc.ErrBusy, "the writer holds the file")
	require.NoError(t, c.Close())
	writer.KillNow(t)

	packed := int64(0)
	for _, c := range waiting {
		r := reported(t, c)
		require.Equal(t, want, r.Output)
		require.Empty(t, r.Errors)
		require.Empty(t, r.Private)
		require.EqualValues(t, len(sixLayers.Layers), r.Packed+r.Hits)
		packed += r.PackedBytes
	}
	requireOneCopy(t, dir, packed)
}

func TestOthersPackPrivatelyWhileTheWriterIsStopped(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		runAsChild(t, dir)
		return
	}
	want := digestOfOutput(sixLayers.Plain(t, sixLayers.Weights(1)))
	for _, then := range []string{"continued", "killed"} {
		t.Run(then, func(t *testing.T) {
			dir := t.TempDir()
			test := "TestOthersPackPrivatelyWhileTheWriterIsStopped"
			writer := harness.StartChild(t, test, nil, harness.EnvDir+"="+dir, envRole+"=writer")
			writer.Await(t, "packing")
			require.NoError(t, writer.Process.Signal(syscall.SIGSTOP))
			var others []*harness.Child
			for range 3 {
				others = append(others, harness.StartChild(t, test, nil, harness.EnvDir+"="+dir, envWait+"=50ms"))
			}
			for _, c := range others {
				r := reported(t, c)
				require.Equal(t, want, r.Output)
				require.Zero(t, r.Packed)
				require.EqualValues(t, len(sixLayers.Layers), r.Private[xpwc.ReasonBusy].Entries)
				require.Len(t, r.Private, 1)
			}
			if then == "killed" {
				writer.KillNow(t)
				writer = harness.StartChild(t, test, nil, harness.EnvDir+"="+dir)
			} else {
				require.NoError(t, writer.Process.Signal(syscall.SIGCONT))
				require.NoError(t, writer.Input.Close())
			}
			r := reported(t, writer)
			require.Equal(t, want, r.Output)
			require.EqualValues(t, len(sixLayers.Layers), r.Packed)
			requireOneCopy(t, dir, r.PackedBytes)
		})
	}
}

// The same as the kills without XNNPACK, with a model whose weights change each round.
func TestAKillWhileXNNPACKPacksLosesNothing(t *testing.T) {
	weights := func(round int) harness.OneModel {
		tensors := sixLayers.Weights(1)
		for i, layer := range sixLayers.Layers {
			tensors[layer[0]] = harness.Floats(sixLayers.Width*sixLayers.Width,
				uint32((round+i)/3)+harness.Hash(layer[0]))
		}
		return tensors
	}
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		round, err := strconv.Atoi(os.Getenv(envRole))
		require.NoError(t, err)
		progress := func(xpwc.Progress) { fmt.Println("packed") }
		c := harness.OpenCache(t, filepath.Join(dir, "cache"), &xpwc.Options{WriterWait: -1, Progress: progress})
		for ; ; round++ {
			sixLayers.Run(t, c, weights(round))
			require.NoError(t, c.Save())
			require.Empty(t, c.Stats().Private)
			fmt.Println("saved", round)
			if round%2 == 0 {
				require.NoError(t, c.Compact())
			}
		}
	}
	random := testkit.Random(t)
	dir, saved := t.TempDir(), -1
	for range 30 {
		child := startModel(t, dir, strconv.Itoa(saved+1), "", nil)
		child.KillAtRandom(t, random, 20)
		last := child.Saved(t, saved)
		saved = -1
		for _, round := range []int{last, last + 1} {
			if round < 0 {
				continue
			}
			c := harness.OpenCache(t, filepath.Join(dir, "cache"), &xpwc.Options{Strict: true, ReadOnly: true})
			require.Equal(t, sixLayers.Plain(t, weights(round)), sixLayers.Run(t, c, weights(round)))
			s := c.Stats()
			require.NoError(t, c.Close())
			if s.Misses == 0 {
				saved = round
			}
		}
		require.GreaterOrEqual(t, saved, last, "what was saved is lost")
	}
	require.Positive(t, saved)
}

// Sixteen goroutines create, execute and delete runtimes while others only execute, and the cache is saved,
// compacted, opened and closed.
func TestEverythingAtOnceOnOneCache(t *testing.T) {
	type variant struct {
		tensors harness.OneModel
		want    []float32
	}
	var variants []variant
	for salt := range uint32(5) {
		tensors := harness.ThreeLayers.Weights(1)
		tensors["w2"] = harness.ThreeLayers.Weights(salt)["w2"]
		variants = append(variants, variant{tensors, harness.ThreeLayers.Plain(t, tensors)})
	}
	path := harness.Path(t)
	c := harness.OpenCache(t, path, nil)
	var executing, creating sync.WaitGroup
	done := make(chan struct{})
	changed := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	for i := range 4 {
		v := variants[i]
		m := harness.ThreeLayers.Open(t, c, v.tensors)
		executing.Go(func() {
			for changed() {
				if !harness.EqualOutputs(v.want, harness.ThreeLayers.Infer(t, m.Runtime)) {
					t.Error("wrong output of a long-lived runtime")
				}
			}
			m.MustClose(t)
		})
	}
	reopen := func() error {
		shared, err := xpwc.Open(path, nil)
		if err != nil {
			return err
		}
		return shared.Close()
	}
	for _, call := range []func() error{c.Save, c.Compact, reopen} {
		executing.Go(func() {
			for changed() {
				if err := call(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 16 {
		creating.Go(func() {
			for round := range 30 {
				v := variants[(i+round)%len(variants)]
				if !harness.EqualOutputs(v.want, harness.ThreeLayers.Run(t, c, v.tensors)) {
					t.Error("wrong output of a new runtime")
				}
			}
		})
	}
	creating.Wait()
	close(done)
	executing.Wait()
	require.NoError(t, c.Compact())
	s := c.Stats()
	require.Empty(t, s.Private)
	require.Zero(t, s.PrivateBytes)
	require.Zero(t, s.MappedBytes)
	require.NoError(t, s.LastError)
	require.NoError(t, c.Close())
	c = harness.OpenCache(t, path, &xpwc.Options{Strict: true})
	for _, v := range variants {
		require.Equal(t, v.want, harness.ThreeLayers.Run(t, c, v.tensors))
	}
}

// What blocks the creation of a runtime here ends only when the others are through: if they waited for it, the test
// would not end.
func TestAnExecutingRuntimeNeverWaitsForOneThatIsCreated(t *testing.T) {
	executed := harness.Chain{Width: 96, Layers: [][2]string{{"v1", "c1"}, {"v2", ""}}}
	sibling := harness.Chain{Width: 96, Layers: [][2]string{{"u1", "d1"}}}
	tensors := executed.Weights(1)
	want := executed.Plain(t, tensors)

	for place, session := range map[string]bool{"packing": true, "computing a tensor": false} {
		t.Run(place, func(t *testing.T) {
			started, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			block := func() { once.Do(func() { close(started); <-release }) }
			options := &xpwc.Options{}
			slow := xpwc.DataMap(blockedMap{xpwc.MapOf(sixLayers.Weights(1)), block})
			if place == "packing" {
				options.Progress = func(p xpwc.Progress) {
					if p.Name == "w1b1" {
						block()
					}
				}
				slow = xpwc.MapOf(sixLayers.Weights(1))
			}
			c := harness.OpenCache(t, harness.Path(t), options)
			m := executed.Open(t, c, xpwc.MapOf(tensors))
			require.NoError(t, c.Save())
			var created sync.WaitGroup
			var got []float32
			created.Go(func() { got = sixLayers.Run(t, c, slow) })
			<-started

			for range 100 {
				require.Equal(t, want, executed.Infer(t, m.Runtime))
			}
			if session {
				require.EqualValues(t, 3, c.Stats().Packed.Entries)
				require.Equal(t, sibling.Plain(t, sibling.Weights(1)), sibling.Run(t, c,
					xpwc.MapOf(sibling.Weights(1))))
				require.EqualValues(t, 4, c.Stats().Packed.Entries)
			}
			close(release)
			created.Wait()
			require.Equal(t, sixLayers.Plain(t, sixLayers.Weights(1)), got)
			m.MustClose(t)
		})
	}
}

// A blockedMap calls a function before it computes a tensor.
type blockedMap struct {
	xpwc.DataMap
	hook func()
}

func (m blockedMap) Tensor(name string) (xpwc.Tensor, error) {
	tensor, err := m.DataMap.Tensor(name)
	fill := tensor.Fill
	tensor.Fill = func(dst []byte) error { m.hook(); return fill(dst) }
	return tensor, err
}
