//go:build cgo

package identity

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/ask"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// changeEvidence writes a cache file anew, with other evidence and all checksums right.
func changeEvidence(t *testing.T, path string, change func(evidence []byte) []byte) {
	t.Helper()
	changeIndex(t, path, func(layouts []format.Layout, _ []format.Record) {
		for i := range layouts {
			layouts[i].Evidence = string(change([]byte(layouts[i].Evidence)))
		}
	})
}

// changeIndex writes a cache file anew, with another index and all its checksums right.
func changeIndex(t *testing.T, path string, change func(layouts []format.Layout, records []format.Record)) {
	t.Helper()
	file, index := harness.ReadIndex(t, path)
	h, err := format.DecodeHeader(file)
	require.NoError(t, err)
	layouts := slices.Clone(index.Layouts())
	var records []format.Record
	for i := range index.Len() {
		records = append(records, harness.Record(t, index, i))
	}
	change(layouts, records)
	slot, block, err := format.EncodeGeneration(h.Current.Generation, h.Current.IndexOffset, layouts, records)
	require.NoError(t, err)
	encoded, offset := slot.Encode(h.ID)
	file = append(file[:h.Current.IndexOffset], block...)
	copy(file[offset:], encoded)
	require.NoError(t, os.WriteFile(path, file, 0o600))
}

// samplesOf returns the sums that evidence has, by family.
func samplesOf(evidence string) map[packing.Family]format.Digest {
	sums := map[packing.Family]format.Digest{}
	for _, f := range format.DecodeEvidence(evidence).Families {
		sums[f.Family] = f.Sum
	}
	return sums
}

// layoutOf returns the layout of a file that has one.
func layoutOf(t *testing.T, path string) format.Layout {
	t.Helper()
	_, index := harness.ReadIndex(t, path)
	require.Len(t, index.Layouts(), 1)
	return index.Layouts()[0]
}

// A process that finds everything asks XNNPACK only about the families of the model.
func TestXNNPACKIsAskedAboutAllFamiliesOnlyWhereEvidenceDoesNotDo(t *testing.T) {
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		path := filepath.Join(dir, "cache")
		if os.Getenv("XPWC_TEST_MEMORY") != "" {
			path = ""
		}
		op := harness.Case(t, harness.Collisions[0])
		plain, err := op.Run(nil, nil, nil)
		require.NoError(t, err)
		c := harness.OpenCache(t, path, &xpwc.Options{ReadOnly: os.Getenv("XPWC_TEST_READ_ONLY") != ""})
		require.Equal(t, plain, harness.RunCase(t, c, op))
		s := c.Stats()
		require.Equal(t, os.Getenv("XPWC_TEST_ANSWERED") != "", harness.LayoutAnswered())
		require.Equal(t, os.Getenv("XPWC_TEST_WARM") != "", s.Misses == 0)
		require.Zero(t, s.DamagedPayloads)
		return
	}
	const name = "TestXNNPACKIsAskedAboutAllFamiliesOnlyWhereEvidenceDoesNotDo"
	run := func(t *testing.T, dir string, env ...string) {
		harness.InProcess(t, name, append(env, harness.EnvDir+"="+dir)...)
	}
	const answered, warm = "XPWC_TEST_ANSWERED=1", "XPWC_TEST_WARM=1"
	packed := func(t *testing.T) (dir string) {
		dir = t.TempDir()
		run(t, dir) // the commit asks
		if layoutOf(t, filepath.Join(dir, "cache")).Evidence == "" {
			t.Skip("this XNNPACK does not say which it is")
		}
		return dir
	}
	t.Run("a cache in memory", func(t *testing.T) { run(t, t.TempDir(), "XPWC_TEST_MEMORY=1") })
	t.Run("everything is found", func(t *testing.T) { run(t, packed(t), warm) })
	t.Run("everything is found in a file that was brought", func(t *testing.T) {
		brought := broughtFrom(t, filepath.Join(packed(t), "cache"))
		dir := filepath.Dir(brought)
		require.NoError(t, os.Rename(brought, filepath.Join(dir, "cache")))
		run(t, dir, warm, "XPWC_TEST_READ_ONLY=1") // it would note where the model lies
	})
	t.Run("evidence that is not whole", func(t *testing.T) {
		dir := packed(t)
		changeEvidence(t, filepath.Join(dir, "cache"), func(b []byte) []byte { return b[:len(b)-1] })
		run(t, dir, warm, answered)
	})
	t.Run("evidence of another machine", func(t *testing.T) {
		dir := packed(t)
		changeEvidence(t, filepath.Join(dir, "cache"), func(b []byte) []byte { b[0] ^= 1; return b })
		run(t, dir, warm, answered)
	})
	t.Run("a family that XNNPACK packs in another way", func(t *testing.T) {
		dir := packed(t)
		changeEvidence(t, filepath.Join(dir, "cache"), func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		run(t, dir, warm, answered)
	})
}

// What XNNPACK makes of a convolution, and which of its micro-kernels it packs a depthwise one for, depends on the size
// of the kernel. Nothing is concluded about what the sample of a family does not show.
func TestASampleCoversTheKernelSizesThatItContains(t *testing.T) {
	const name, envCase = "TestASampleCoversTheKernelSizesThatItContains", "XPWC_TEST_CASE"
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		op := harness.Case(t, os.Getenv(envCase))
		plain, err := op.Run(nil, nil, nil)
		require.NoError(t, err)
		c := harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
		harness.ForgetLayout()
		require.Equal(t, plain, harness.RunCase(t, c, op))
		if s := c.Stats(); s.Misses == 0 && s.Hits.Entries > 0 {
			require.Equal(t, os.Getenv("XPWC_TEST_ANSWERED") != "", harness.LayoutAnswered())
		}
		return
	}
	for _, try := range []struct {
		name  string
		shown bool
	}{
		{"convolution-f32-1x1", true},
		{"convolution-f32-3x3", true},
		{"convolution-f32-3x3-stride-2-same", true},
		{"convolution-qs8-1x1-groups-2", true},
		{"convolution-qs8-qc8w-1x1", true},
		{"depthwise-f32-3x3", true},
		{"depthwise-f32-3x3-no-bias", true},
		{"depthwise-f32-5x5", true},
		{"depthwise-qs8-qc8w-3x3", true},
		{"depthwise-qs8-qc8w-5x5", true},
		{"depthwise-f32-1x1", false},
		{"depthwise-f32-7x7", false},
		{"depthwise-f32-3x3-multiplier-2", false},
	} {
		t.Run(try.name, func(t *testing.T) {
			env := []string{harness.EnvDir + "=" + t.TempDir(), envCase + "=" + try.name}
			harness.InProcess(t, name, env...)
			if !try.shown {
				env = append(env, "XPWC_TEST_ANSWERED=1")
			}
			harness.InProcess(t, name, env...)
		})
	}
}

// XNNPACK packs a deconvolution in every process, without a look-up. If the file has the bytes that it packs, they are
// used without asking how it packs everything else.
func TestADeconvolutionIsMatchedByItsBytes(t *testing.T) {
	const name, envCase = "TestADeconvolutionIsMatchedByItsBytes", "XPWC_TEST_CASE"
	const envAnswered, envPacks = "XPWC_TEST_ANSWERED=1", "XPWC_TEST_PACKS=1"
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		op := harness.Case(t, os.Getenv(envCase))
		plain, err := op.Run(nil, nil, nil)
		require.NoError(t, err)
		o := &xpwc.Options{ReadOnly: os.Getenv("XPWC_TEST_READ_ONLY") != ""}
		c := harness.OpenCache(t, filepath.Join(dir, "cache"), o)
		require.Equal(t, plain, harness.RunCase(t, c, op))
		require.Equal(t, os.Getenv("XPWC_TEST_ANSWERED") != "", harness.LayoutAnswered())
		packs := int64(0)
		if os.Getenv("XPWC_TEST_PACKS") != "" {
			packs = 1
		}
		s := c.Stats()
		require.Equal(t, packs, s.Packed.Entries)
		require.Equal(t, 1-packs, s.Reused.Entries)
		return
	}
	local, err := xpwc.CurrentLayout()
	require.NoError(t, err)
	dense := packing.Family{Operator: packing.FullyConnected, Input: 1, Kernel: 1, Bias: 1, Output: 1}
	if ask.Evidence(local.Fingerprint, []packing.Family{dense}, "") == "" {
		t.Skip("this XNNPACK does not say which it is")
	}
	changeFile := func(t *testing.T, dir string, change func(file []byte, subject format.Record)) {
		path := filepath.Join(dir, "cache")
		file, index := harness.ReadIndex(t, path)
		require.Equal(t, 1, index.Len())
		change(file, harness.Record(t, index, 0))
		require.NoError(t, os.WriteFile(path, file, 0o600))
	}
	for _, op := range []string{
		"deconvolution-f32-3x3", "deconvolution-f32-2x2-stride-2", "deconvolution-qs8-3x3-no-bias",
		"deconvolution-qs8-qc8w-groups-2", "deconvolution-qd8-f32-qc8w-3x3-stride-2",
	} {
		t.Run(op, func(t *testing.T) {
			packed := t.TempDir()
			run := func(t *testing.T, dir string, env ...string) {
				harness.InProcess(t, name, append(env, envCase+"="+op, harness.EnvDir+"="+dir)...)
			}
			run(t, packed, envPacks)
			copied := func(t *testing.T) (dir string) {
				dir = t.TempDir()
				require.NoError(t, os.CopyFS(dir, os.DirFS(packed)))
				return dir
			}
			t.Run("the file has them", func(t *testing.T) { run(t, copied(t)) })
			t.Run("the file has them in another layout", func(t *testing.T) {
				dir := copied(t)
				changeIndex(t, filepath.Join(dir, "cache"), func(layouts []format.Layout, records []format.Record) {
					layouts[0].Fingerprint[0] ^= 1
					records[0].Layout = layouts[0].Fingerprint
				})
				run(t, dir)
			})
			t.Run("the file has them of another content", func(t *testing.T) {
				dir := copied(t)
				changeIndex(t, filepath.Join(dir, "cache"), func(_ []format.Layout, records []format.Record) {
					records[0].Digests.Kernel[0] ^= 1
					records[0].Stamps.Kernel = format.Digest{}
				})
				run(t, dir, "XPWC_TEST_READ_ONLY=1") // it would note what they are of, and ask for that
			})
			t.Run("the file has others", func(t *testing.T) {
				dir := copied(t)
				changeFile(t, dir, func(file []byte, r format.Record) { file[r.Offset] ^= 1 })
				run(t, dir, envAnswered, envPacks)
			})
		})
	}
}

func TestAMachineIsListedUnderItsLayout(t *testing.T) {
	local, err := xpwc.CurrentLayout()
	require.NoError(t, err)
	dense := packing.Family{Operator: packing.FullyConnected, Input: 1, Kernel: 1, Bias: 1, Output: 1}
	conv := packing.Family{Operator: packing.Convolution2D, Input: 1, Kernel: 1, Bias: 1, Output: 1}
	pair := []packing.Family{dense, conv}
	mine := format.DecodeEvidence(ask.Evidence(local.Fingerprint, pair, ""))
	if len(mine.Machines) == 0 {
		t.Skip("this XNNPACK does not say which it is")
	}
	require.Len(t, mine.Machines, 1)
	require.Len(t, mine.Families, 2)
	unknown := format.DecodeEvidence(ask.Evidence(local.Fingerprint, []packing.Family{{}, dense}, ""))
	require.Len(t, unknown.Families, 1, "nobody has said how the other is packed")

	another := format.Evidence{Machines: []format.Digest{{1}}, Families: slices.Clone(mine.Families)}
	for i := range another.Families {
		another.Families[i].Sum[0] ^= 1
	}
	complete := mine.Merge(another)
	elsewhere := local.Fingerprint
	elsewhere[0] ^= 1
	for name, c := range map[string]struct {
		layout       format.Digest
		stored, want format.Evidence
	}{
		"beside another, and what it packs is right": {local.Fingerprint, another, complete},
		"once":                          {local.Fingerprint, mine, mine},
		"not in another layout":         {elsewhere, another.Merge(mine), another},
		"not alone in another layout":   {elsewhere, mine, format.Evidence{}},
		"another layout is as it was":   {elsewhere, another, another},
		"no machine is listed, but own": {local.Fingerprint, format.Evidence{}, mine},
	} {
		got := ask.Evidence(c.layout, pair, c.stored.Encode())
		require.Equal(t, c.want.Encode(), got, name)
		require.Equal(t, got, ask.Evidence(c.layout, pair, got), "%s: once more", name)
	}
}

// Should a machine seem to be another one, as where a host hides what XNNPACK chooses kernels by, or where XNNPACK was
// built in another way, entries are used only of families that XNNPACK packs the same.
func TestEvidenceIsTrustedOnlyForFamiliesWithEqualSamples(t *testing.T) {
	const name = "TestEvidenceIsTrustedOnlyForFamiliesWithEqualSamples"
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		runTheTableOnEvidence(t, filepath.Join(dir, "cache"))
		return
	}
	dir := t.TempDir()
	inDir := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	var cpus []optable.CPU // that there are, lesser ones first
	harness.EachCPU(t, func(t *testing.T, cpu optable.CPU) {
		require.NoError(t, os.Mkdir(inDir(cpu.Name), 0o700))
		harness.InProcess(t, name, cpu.Environment, harness.EnvDir+"="+inDir(cpu.Name))
		if layoutOf(t, inDir(cpu.Name, "cache")).Evidence == "" {
			t.Skip("this XNNPACK does not say which it is")
		}
		cpus = append(cpus, cpu)
	})
	moved := func(old, target optable.CPU) {
		t.Run("from "+old.Name+" to "+target.Name, func(t *testing.T) {
			foreign, local := layoutOf(t, inDir(old.Name, "cache")), layoutOf(t, inDir(target.Name, "cache"))
			require.NoError(t, os.Mkdir(inDir("moved"), 0o700))
			defer func() { require.NoError(t, os.RemoveAll(inDir("moved"))) }()
			file, err := os.ReadFile(inDir(old.Name, "cache"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(inDir("moved", "cache"), file, 0o600))
			changeEvidence(t, inDir("moved", "cache"), func(b []byte) []byte {
				copy(b, local.Evidence[:len(format.Digest{})]) // the machine's
				return b
			})
			if local.Fingerprint == foreign.Fingerprint {
				t.Skip("they pack alike")
			}
			harness.InProcess(t, name, target.Environment, harness.EnvDir+"="+inDir("moved"))
			_, index := harness.ReadIndex(t, inDir("moved", "cache"))
			packed := map[packing.Family]bool{} // by the other
			for i := range index.Len() {
				if r := harness.Record(t, index, i); r.Layout == local.Fingerprint {
					packed[r.Family] = true
				}
			}
			ours, theirs, shared := samplesOf(local.Evidence), samplesOf(foreign.Evidence), 0
			for f, sum := range ours {
				if sum == theirs[f] {
					shared++
				} else if f.Operator != packing.Deconvolution2D { // of which some kernels may be packed the same
					require.Contains(t, packed, f)
				}
			}
			t.Logf("%d of %d families are packed the same, %d are packed anew", shared, len(ours), len(packed))
		})
	}
	for i, cpu := range cpus[:max(len(cpus)-1, 0)] {
		moved(cpu, cpus[i+1])
		moved(cpus[i+1], cpu)
		moved(cpu, cpus[len(cpus)-1])
	}
}

// runTheTableOnEvidence runs every operator with a cache, each in a session that knows no more than the file does.
func runTheTableOnEvidence(t *testing.T, path string) {
	c := harness.OpenCache(t, path, nil)
	for _, op := range optable.Cases() {
		plain, err := op.Run(nil, nil, nil)
		if errors.Is(err, xnnpack.UnsupportedHardware) {
			continue
		}
		require.NoError(t, err)
		harness.ForgetLayout()
		require.Equal(t, plain, harness.RunCase(t, c, op), op.Name)
	}
	require.NoError(t, c.Close())
	require.NoError(t, c.Stats().Damaged)
	require.Zero(t, c.Stats().DamagedPayloads)
}
