//go:build cgo

package reader_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/capi/reader"
	"xpwc/internal/output"
	"xpwc/internal/tests/optable"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// tensors are the contents of a model's tensors by name.
type tensors map[string][]byte

// session runs a case in a session of the cache at path, and returns the output and the cache's statistics.
func session(t *testing.T, c optable.Case, path string, o *xpwc.Options) ([]byte, xpwc.Stats) {
	t.Helper()
	return sessionWithFlags(t, 0, c, path, o)
}

// sessionWithFlags is session for a host that adds flags to the packing of every kernel.
func sessionWithFlags(t *testing.T, flags packing.Flags, c optable.Case, path string, o *xpwc.Options) (
	[]byte, xpwc.Stats) {
	t.Helper()
	return sessionLoading(t, c, path, o, func(s *xpwc.Session, data tensors, w optable.Weight) ([]byte, error) {
		data[w.Name] = w.Content
		options := []xpwc.LoadOption{xpwc.PackedAs(withFlags(flags, w.Packing))}
		if w.Eager {
			options = append(options, xpwc.Eager())
		}
		if w.Retain {
			options = append(options, xpwc.Retain())
		}
		return s.Load(w.Name, options...)
	})
}

// sessionLoading is session for a host that adds each weight to the session's data and loads it with load.
func sessionLoading(t *testing.T, c optable.Case, path string, o *xpwc.Options,
	load func(s *xpwc.Session, data tensors, w optable.Weight) ([]byte, error)) ([]byte, xpwc.Stats) {
	t.Helper()
	cache, err := xpwc.Open(path, o)
	require.NoError(t, err)
	data := tensors{}
	s, err := cache.NewSession(xpwc.MapOf(data))
	require.NoError(t, err)
	output, err := c.Run(s, func(w optable.Weight) ([]byte, error) { return load(s, data, w) }, s.Finalize)
	if errors.Is(err, xnnpack.UnsupportedHardware) {
		t.Skip(err)
	}
	require.NoError(t, err)
	plain, err := c.Run(nil, nil, nil)
	require.NoError(t, err)
	require.Equal(t, plain, output)
	require.NoError(t, s.Close())
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return output, stats
}

// caseNamed returns the case of the operator table with that name.
func caseNamed(t *testing.T, name string) optable.Case {
	t.Helper()
	i := slices.IndexFunc(optable.Cases(), func(c optable.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return optable.Cases()[i]
}

const (
	model    = "00112233445566778899aabbccddeeff"
	delegate = "the bytes of a delegate" // of the model
)

// sealed writes a file of the entries of another that is sealed for model and delegate.
func sealed(t *testing.T, path string) string {
	t.Helper()
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	defer f.Close()
	b, err := hex.DecodeString(model)
	require.NoError(t, err)
	digest := xpwc.Digest(b)
	require.NoError(t, output.Write(path+".sealed", func(w *os.File) error {
		programs := func(cachefile.Entry) []cachefile.Digest {
			return []cachefile.Digest{xpwc.DigestOf([]byte(delegate))}
		}
		return f.Write(w, nil, cachefile.WriteOptions{Seal: &digest, Programs: programs})
	}))
	require.NoError(t, os.Chmod(path+".sealed", 0o444))
	return path + ".sealed"
}

// run runs a case with the reader. With absent, tensors that are not Eager have no content.
func run(t *testing.T, c optable.Case, r *reader.Reader, absent bool) []byte {
	t.Helper()
	return runWithFlags(t, 0, c, r, absent)
}

func withFlags(flags packing.Flags, id packing.Identity) packing.Identity {
	if !id.Zero() {
		id.Flags |= flags
	}
	return id
}

func runWithFlags(t *testing.T, flags packing.Flags, c optable.Case, r *reader.Reader, absent bool) []byte {
	t.Helper()
	return runNamed(t, c, r, absent, func(w optable.Weight, b []byte) error {
		w.Packing = withFlags(flags, w.Packing)
		return name(r, w, b)
	})
}

func runNamed(
	t *testing.T, c optable.Case, r *reader.Reader, absent bool, name func(optable.Weight, []byte) error) []byte {
	t.Helper()
	var copies optable.Copies
	defer copies.Free()
	output, err := c.Run(r, func(w optable.Weight) ([]byte, error) {
		b, err := copies.Place(w)
		if err == nil && absent && !w.Eager {
			clear(b)
		}
		return b, errors.Join(err, name(w, b))
	}, r.Finalize)
	require.NoError(t, err)
	return output
}

func name(r *reader.Reader, w optable.Weight, b []byte) error {
	if w.Packing.Zero() {
		return r.Name(w.Name, b)
	}
	return r.NamePacked(w.Name, b, w.Packing)
}

// packedCase writes the cache file of a case, and returns the output and the statistics of a warm start.
func packedCase(t *testing.T, c optable.Case) (path string, want []byte, warm xpwc.Stats) {
	path = filepath.Join(t.TempDir(), "cache")
	_, packed := session(t, c, path, nil)
	if packed.Packed.Entries == 0 {
		t.Skip("XNNPACK packs nothing of it through a cache")
	}
	want, warm = session(t, c, path, &xpwc.Options{ReadOnly: true})
	return path, want, warm
}

func TestEveryOperatorIsServedAsTheLibraryServesIt(t *testing.T) {
	asked := 0
	for _, c := range optable.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			path, want, warm := packedCase(t, c)
			for _, digest := range []string{model, ""} {
				r, err := reader.Open(sealed(t, path), digest)
				require.NoError(t, err)
				require.Equal(t, want, run(t, c, r, digest != ""), "only without a digest the content is read")
				s := r.Stats()
				require.EqualValues(t, warm.Hits.Entries, s.Hits)
				require.EqualValues(t, warm.Reused.Entries, s.Shared)
				require.Equal(t, int(warm.Misses), s.Misses)
				require.Zero(t, s.Packed)
				require.NoError(t, r.Verify())
				if s.Asked {
					asked++
				}
				r.Close()
			}
		})
	}
	t.Logf("XNNPACK was asked for its whole layout %d times", asked)
}

func TestAHostThatKnowsNamesAloneHitsWithItsProgram(t *testing.T) {
	asked := 0
	for _, c := range optable.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			path, want, warm := packedCase(t, c)
			serve := func(digest string, programs ...string) reader.Stats {
				r, err := reader.Open(sealed(t, path), digest)
				require.NoError(t, err)
				defer r.Close()
				for _, p := range programs {
					require.NoError(t, r.SetProgram(p))
				}
				require.Equal(t, want, runNamed(t, c, r, false, func(w optable.Weight, b []byte) error {
					return r.NameAsSealed(w.Name, b)
				}))
				return r.Stats()
			}
			s := serve("", delegate)
			require.EqualValues(t, warm.Hits.Entries+warm.Reused.Entries, s.Hits+s.Shared+s.Packed)
			scaled, half := strings.Contains(c.Name, "q"), strings.Contains(c.Name, "f16")
			switch {
			case scaled:
				require.Zero(t, s.Hits, "its scales could be others")
			case !half: // a CPU without half precision packs XNNPACK's converted copies
				// The library compares kernels whose operator XNNPACK changes; the reader has no shape to probe.
				require.GreaterOrEqual(t, int64(s.Hits), warm.Hits.Entries)
			}
			if !half {
				require.Zero(t, s.Packed)
			}
			if s.Asked {
				asked++
			}
			require.Equal(t, s.Hits, serve(model, "another", delegate).Hits, "the last program counts")
			for _, programs := range [][]string{nil, {"another"}, {delegate, "another"}} {
				s = serve(model, programs...)
				require.Zero(t, s.Hits, "shapes and scales could differ")
				if !half {
					require.Zero(t, s.Packed, "equal bytes are used from the file")
				}
			}
			require.Zero(t, serve("").Hits)
		})
	}
	t.Logf("XNNPACK was asked for its whole layout %d times", asked)
}

func TestAKernelThatIsDescribedInPartIsPackedAndShared(t *testing.T) {
	c := caseNamed(t, "fully-connected-f32")
	description := []byte("the host's description")
	for name, test := range map[string]struct {
		options []xpwc.LoadOption
		name    func(*reader.Reader, optable.Weight, []byte) error
	}{
		"nothing": {nil, func(r *reader.Reader, w optable.Weight, b []byte) error { return r.Name(w.Name, b) }},
		"opaque": {[]xpwc.LoadOption{xpwc.PackedAs(packing.Opaque(description))},
			func(r *reader.Reader, w optable.Weight, b []byte) error { return r.NameOpaque(w.Name, b, description) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			want, _ := sessionLoading(t, c, path, nil,
				func(s *xpwc.Session, data tensors, w optable.Weight) ([]byte, error) {
					data[w.Name] = w.Content
					return s.Load(w.Name, append(test.options, xpwc.Eager())...)
				})
			for _, digest := range []string{model, ""} {
				r, err := reader.Open(sealed(t, path), digest)
				require.NoError(t, err)
				defer r.Close()
				require.Equal(t, want, runNamed(t, c, r, false, func(w optable.Weight, b []byte) error {
					return test.name(r, w, b)
				}))
				require.Zero(t, r.Stats().Hits)
				require.Zero(t, r.Stats().Packed)
				require.Positive(t, r.Stats().Shared)
			}
		})
	}
}

// Two exports of a model may pack a kernel of one name differently, and the name does not tell which one it is.
func TestWhatIsPackedInSeveralWaysIsNotServedToAHostThatKnowsNothingButNames(t *testing.T) {
	c := caseNamed(t, "fully-connected-qd8-f32-qc8w")
	path := filepath.Join(t.TempDir(), "cache")
	want, _ := session(t, c, path, nil)
	sessionWithFlags(t, packing.SparseInference, c, path, nil)
	r, err := reader.Open(sealed(t, path), model)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, 2, r.Stats().Entries)
	require.Equal(t, want, runNamed(t, c, r, false, func(w optable.Weight, b []byte) error {
		return r.NameAsSealed(w.Name, b)
	}))
	require.Zero(t, r.Stats().Hits)
	require.Equal(t, 1, r.Stats().Packed)
}

// In a mapped file two constants of equal bytes may share an address and be packed with different scales.
func TestWhatHasTwoNamesIsNotServedAsOneOfThemIsPacked(t *testing.T) {
	c := caseNamed(t, "fully-connected-qd8-f32-qc8w")
	path := filepath.Join(t.TempDir(), "cache")
	want, _ := session(t, c, path, nil)
	output, _ := sessionLoading(t, c, path, nil,
		func(s *xpwc.Session, data tensors, w optable.Weight) ([]byte, error) {
			data["another "+w.Name] = w.Content
			return s.Load("another "+w.Name, xpwc.PackedAs(withFlags(packing.SparseInference, w.Packing)), xpwc.Eager())
		})
	require.Equal(t, want, output)
	r, err := reader.Open(sealed(t, path), model)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, 2, r.Stats().Entries)
	require.Equal(t, want, runNamed(t, c, r, false, func(w optable.Weight, b []byte) error {
		return errors.Join(r.NameAsSealed(w.Name, b), r.NameAsSealed("another "+w.Name, b))
	}))
	require.Zero(t, r.Stats().Hits)
	require.Equal(t, 1, r.Stats().Packed)
}

// XNNPACK frees its copies with their runtime, and the next runtime's copies may have their addresses.
func TestTheCopyOfATensorWithoutANameIsNotTakenForAnEarlierOne(t *testing.T) {
	c := caseNamed(t, "fully-connected-f32-no-bias")
	path := filepath.Join(t.TempDir(), "cache")
	var weight optable.Weight
	sessionLoading(t, c, path, nil, func(s *xpwc.Session, data tensors, w optable.Weight) ([]byte, error) {
		weight = w
		data[w.Name+"#"] = w.Content // the name of a copy
		return s.Load(w.Name+"#", xpwc.PackedAs(w.Packing), xpwc.Eager())
	})

	r, err := reader.Open(sealed(t, path), model)
	require.NoError(t, err)
	defer r.Close()
	entry, err := r.Entry(0)
	require.NoError(t, err)
	var memory optable.Copies
	defer memory.Free()
	var places [3][]byte
	for i := range places {
		places[i], err = memory.Place(weight)
		require.NoError(t, err)
	}
	original, copied, unrelated := places[0], places[1], places[2]
	require.NoError(t, r.NamePacked(weight.Name, original, weight.Packing))
	if !r.Alias(copied, original) {
		t.Skip("this XNNPACK does not report its copies")
	}
	require.True(t, r.Alias(copied, unrelated))
	require.False(t, r.Finds(entry, copied))
	require.True(t, r.Alias(copied, original))
	require.True(t, r.Finds(entry, copied))

	unsealed, err := reader.Open(path, "")
	require.NoError(t, err)
	defer unsealed.Close()
	require.NoError(t, unsealed.NamePacked(weight.Name, original, weight.Packing))
	require.True(t, unsealed.Alias(copied, original))
	require.NoError(t, unsealed.NamePacked(weight.Name+"#", copied, weight.Packing))
	require.True(t, unsealed.Finds(entry, copied), "a tensor of that name is compared by its own content")
}

// The reader probes sizes with the runtime's flags. Without the host's flags the key shows that XNNPACK created another
// operator than the probed one: only equal bytes are then shared.
func TestWhatFlagsOfTheRuntimeChangeIsServedInItsSizeAlone(t *testing.T) {
	const slowConsistentArithmetic xnnpack.RuntimeFlags = 0x2000 // headers of 2024 do not name it
	for title, test := range map[string]struct {
		runtime  xnnpack.RuntimeFlags
		declared packing.Flags
	}{
		"sparse":                   {xnnpack.HintSparseInference, packing.SparseInference},
		"half, where the CPU can":  {xnnpack.HintFP16Inference, packing.HalfPrecision},
		"half":                     {xnnpack.ForceFP16Inference, packing.HalfPrecision},
		"consistent":               {slowConsistentArithmetic, packing.ConsistentArithmetic},
		"half, which is not given": {xnnpack.ForceFP16Inference, 0},
	} {
		t.Run(title, func(t *testing.T) {
			c := caseNamed(t, "fully-connected-qd8-f32-qc8w")
			c.Flags = test.runtime
			path := filepath.Join(t.TempDir(), "cache")
			sessionWithFlags(t, test.declared, c, path, nil)
			want, warm := sessionWithFlags(t, test.declared, c, path, &xpwc.Options{ReadOnly: true})
			serve := func() reader.Stats {
				r, err := reader.Open(path, "")
				require.NoError(t, err)
				defer r.Close()
				require.Equal(t, want, runWithFlags(t, test.declared, c, r, false))
				return r.Stats()
			}
			stats := serve()
			require.EqualValues(t, warm.Hits.Entries, stats.Hits)
			require.Equal(t, 1-stats.Hits, stats.Shared, "one copy in memory all the same")
			if test.declared&packing.HalfPrecision == 0 && test.declared != 0 {
				require.Equal(t, 1, stats.Hits)
			}
			shorten(t, path)
			stats = serve()
			require.Zero(t, stats.Hits)
			require.Zero(t, stats.Shared)
			require.Equal(t, 1, stats.Packed)
			require.False(t, stats.Damaged)
		})
	}
}

// shorten removes 64 bytes from the size that the index has for the file's only payload. XNNPACK would read beyond it.
func shorten(t *testing.T, path string) {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	le := binary.LittleEndian
	newest := 0
	for _, slot := range []int{512, 1024} {
		if le.Uint64(file[slot:]) > le.Uint64(file[max(newest, 512):]) || newest == 0 && le.Uint64(file[slot:]) > 0 {
			newest = slot
		}
	}
	x := file[le.Uint64(file[newest+8:]):]
	records := 128 + uint64(le.Uint32(x[24:]))*32 + uint64(le.Uint32(x[56:]))*16
	records += (le.Uint64(x[16:])*164 + le.Uint64(x[32:])*4 + le.Uint64(x[40:]) + 1023) / 1024 * 8
	size := x[(records+63)/64*64+8:]
	le.PutUint64(size, le.Uint64(size)-64)
	reseal(file)
	require.NoError(t, os.WriteFile(path, file, 0o600))
}

func TestTheHashIsTheLibrarys(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 5000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for n := range b {
		require.Equal(t, xpwc.DigestOf(b[:n]).String(), reader.Digest(b[:n]), n)
	}
}

func TestTheDigestOfASectionIsThatOfItsBytes(t *testing.T) {
	content := bytes.Repeat([]byte("a model in a zip"), 5000)
	path := filepath.Join(t.TempDir(), "assets.zip")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	end := len(content)
	for _, s := range []struct{ offset, size, end int }{
		{0, 0, end}, {0, end, end}, {1, 10, 11}, {4096, 4096, 8192}, {70_001, 0, end}, {end, 0, end},
	} {
		digest, err := reader.DigestFile(f, uint64(s.offset), uint64(s.size))
		require.NoError(t, err)
		require.Equal(t, reader.Digest(content[s.offset:s.end]), digest, "%+v", s)
	}
	for _, s := range []struct{ offset, size uint64 }{
		{uint64(end) + 1, 0}, {1, uint64(end)}, {math.MaxUint64, 2}, {2, math.MaxUint64},
	} {
		_, err := reader.DigestFile(f, s.offset, s.size)
		require.ErrorIs(t, err, reader.InvalidArgument, "%+v", s)
	}
	require.NoError(t, f.Close())
	closed, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, err = reader.DigestFile(closed, 0, 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, reader.InvalidArgument)
}

func TestBothReadersFindTheSameInTheGoldenFile(t *testing.T) {
	golden := filepath.Join("..", "..", "internal", "format", "testdata", "version4.golden")
	content, err := os.ReadFile(golden)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "golden")
	require.NoError(t, os.WriteFile(path, content, 0o444))
	requireSameEntries(t, path)
}

func requireSameEntries(t *testing.T, path string) {
	t.Helper()
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := reader.Open(path, "")
	require.NoError(t, err)
	defer r.Close()
	n := 0
	for want, err := range f.Entries() {
		require.NoError(t, err)
		got, err := r.Entry(n)
		require.NoError(t, err)
		payload := make([]byte, want.Size)
		_, err = f.Payload(want).ReadAt(payload, 0)
		require.NoError(t, err)
		require.Equal(t, reader.Entry{
			Kernel: want.Kernel, Bias: want.Bias, HasBias: want.HasBias, Offset: uint64(want.Offset), Seed: want.Seed,
			FingerprintID: want.FingerprintID, Layout: want.Layout, Packing: want.Packing, Sum: want.Sum,
			Payload: payload,
		}, got)
		n++
	}
	require.Equal(t, n, r.Stats().Entries)
}

func TestAModelOfAnotherDigestIsNotServed(t *testing.T) {
	c := optable.Cases()[0]
	path := filepath.Join(t.TempDir(), "cache")
	want, _ := session(t, c, path, nil)
	r, err := reader.Open(sealed(t, path), reader.Digest([]byte("another")))
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, want, run(t, c, r, false), "its content is compared")
	require.Positive(t, r.Stats().Hits)

	second, err := reader.Open(path+".sealed", reader.Digest([]byte("another")))
	require.NoError(t, err)
	defer second.Close()
	var copies optable.Copies
	defer copies.Free()
	_, err = c.Run(second, func(w optable.Weight) ([]byte, error) {
		w.Content = bytes.Clone(w.Content)
		w.Content[0]++
		b, err := copies.Place(w)
		return b, errors.Join(err, name(second, w, b))
	}, second.Finalize)
	require.NoError(t, err)
	require.Zero(t, second.Stats().Hits)
	require.Positive(t, second.Stats().Packed)
}

func TestWhatCannotBeOpenedIsAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cache")
	session(t, optable.Cases()[0], path, nil)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	open := func(content []byte, mode os.FileMode) error {
		copied := filepath.Join(dir, "file")
		require.NoError(t, errors.Join(os.WriteFile(copied, content, 0o600), os.Chmod(copied, mode)))
		r, err := reader.Open(copied, "")
		r.Close()
		return err
	}
	require.NoError(t, open(good, 0o600))
	require.ErrorIs(t, open(good, 0o622), reader.UnsafeFile)
	require.ErrorIs(t, open(nil, 0o600), reader.NotCache)
	require.ErrorIs(t, open([]byte("somebody's notes"), 0o600), reader.NotCache)
	require.ErrorIs(t, open(good[:len(good)-1], 0o600), reader.Damaged)
	require.ErrorIs(t, open(good[:100], 0o600), reader.Damaged)
	damaged := bytes.Clone(good)
	damaged[20]++
	require.ErrorIs(t, open(damaged, 0o600), reader.Damaged)
	_, err = reader.Open(path, "no digest")
	require.ErrorIs(t, err, reader.InvalidArgument)
}

func TestAFileInAnotherIsServedByADescriptor(t *testing.T) {
	c := optable.Cases()[0]
	path := filepath.Join(t.TempDir(), "cache")
	want, _ := session(t, c, path, nil)
	content, err := os.ReadFile(sealed(t, path))
	require.NoError(t, err)
	around := append(append(make([]byte, 64*1001), content...), "more"...)
	require.NoError(t, os.WriteFile(path+".around", around, 0o600))
	f, err := os.Open(path + ".around")
	require.NoError(t, err)
	r, err := reader.OpenFD(f.Fd(), 64*1001, uint64(len(content)), model)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	defer r.Close()
	require.Equal(t, want, run(t, c, r, true))
	require.Positive(t, r.Stats().Hits)
	require.Zero(t, r.Stats().Packed)
}

// A host that deletes what is damaged must not delete a file that a disk or a mount does not give for a moment.
func TestAFileThatTheSystemCannotReadIsNotDamaged(t *testing.T) {
	host := program(t, "errors.c", "-Wl,--wrap=pread")
	path := filepath.Join(t.TempDir(), "golden")
	require.NoError(t, os.WriteFile(path, golden(t), 0o600))
	out, err := exec.Command(host, path).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestTheReaderIsStrictC99(t *testing.T) {
	flags, err := exec.Command("go", "env", "CGO_CFLAGS").Output()
	require.NoError(t, err)
	for _, compiler := range []string{"gcc", "clang"} {
		for _, level := range []string{"-O0", "-O2"} {
			t.Run(compiler+" "+level, func(t *testing.T) {
				if _, err := exec.LookPath(compiler); err != nil && compiler == "clang" {
					t.Skip("it is not installed")
				}
				args := []string{level, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-c", "-o", os.DevNull}
				args = append(append(args, "-I.", "-I../include", "-I../..", "xpwc_reader.c"),
					strings.Fields(string(flags))...)
				out, err := exec.Command(compiler, args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			})
		}
	}
}

func TestAMissHasAReason(t *testing.T) {
	c := optable.Cases()[0]
	path := filepath.Join(t.TempDir(), "cache")
	session(t, c, path, nil)
	file := sealed(t, path)
	asSealed := func(r *reader.Reader) func(optable.Weight, []byte) error {
		return func(w optable.Weight, b []byte) error { return r.NameAsSealed(w.Name, b) }
	}
	asExported := func(r *reader.Reader) func(optable.Weight, []byte) error {
		set := false
		return func(w optable.Weight, b []byte) error {
			var err error
			if !set {
				err, set = r.SetProgram("exported again"), true
			}
			return errors.Join(err, r.NameAsSealed(w.Name, b))
		}
	}
	packed := func(r *reader.Reader) func(optable.Weight, []byte) error {
		return func(w optable.Weight, b []byte) error { return name(r, w, b) }
	}
	for _, miss := range []struct {
		reason reader.Miss
		text   string
		model  string
		name   func(*reader.Reader) func(optable.Weight, []byte) error
	}{
		{reader.MissUnnamed, "without a name", model, func(*reader.Reader) func(optable.Weight, []byte) error {
			return func(optable.Weight, []byte) error { return nil }
		}},
		{reader.MissPacking, "without all that decides how they are packed", model,
			func(r *reader.Reader) func(optable.Weight, []byte) error {
				return func(w optable.Weight, b []byte) error { return r.Name(w.Name, b) }
			}},
		{reader.MissNoProgram, "with xpwc_reader_set_program", model, asSealed},
		{reader.MissModel, "sealed for another program and another model", reader.Digest([]byte("another")),
			asExported},
		{reader.MissContent, "other content", reader.Digest([]byte("another")),
			func(r *reader.Reader) func(optable.Weight, []byte) error {
				return func(w optable.Weight, b []byte) error {
					b[0]++
					return name(r, w, b)
				}
			}},
		{reader.MissAbsent, "no entries of that name", model,
			func(r *reader.Reader) func(optable.Weight, []byte) error {
				return func(w optable.Weight, b []byte) error {
					w.Name += " of another model"
					return name(r, w, b)
				}
			}},
	} {
		t.Run(miss.text, func(t *testing.T) {
			r, err := reader.Open(file, miss.model)
			require.NoError(t, err)
			defer r.Close()
			require.Empty(t, r.Reason())
			var copies optable.Copies
			defer copies.Free()
			nameTensor := miss.name(r)
			_, err = c.Run(r, func(w optable.Weight) ([]byte, error) {
				b, err := copies.Place(w)
				if err == nil {
					b = bytes.Clone(b)
				}
				return b, errors.Join(err, nameTensor(w, b))
			}, r.Finalize)
			require.NoError(t, err)
			s := r.Stats()
			require.Positive(t, s.Misses)
			require.Equal(t, map[reader.Miss]int{miss.reason: s.Misses}, s.MissesBy)
			require.Contains(t, r.Reason(), miss.text)
		})
	}
	t.Run("another machine", func(t *testing.T) {
		require.NoError(t, os.WriteFile(path+".other", golden(t), 0o400))
		r, err := reader.Open(path+".other", "") // with layouts that no machine has
		require.NoError(t, err)
		defer r.Close()
		runNamed(t, c, r, false, packed(r))
		require.Positive(t, r.Stats().MissesBy[reader.MissLayout])
		kernel := make([]byte, 64)
		require.False(t, r.Finds(reader.Entry{}, kernel))
		require.Equal(t, 1, r.Stats().MissesBy[reader.MissOff], "it is finalized")
		require.Contains(t, r.Reason(), "packed for machines on which XNNPACK packs otherwise")
	})
}
