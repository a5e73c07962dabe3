//go:build cgo

package reader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc/cachefile"
	"xpwc/capi/reader"
	"xpwc/internal/digest"
	"xpwc/internal/tests/testkit"
)

// golden is a file with every structure of the format in it.
func golden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "internal", "format", "testdata", "version4.golden"))
	require.NoError(t, err)
	return b
}

// program compiles a program of testdata with the reader.
func program(t testing.TB, source string, flags ...string) string {
	t.Helper()
	return compiled(t, filepath.Join("testdata", source), append(flags, "xpwc_reader.c")...)
}

// compiled compiles a source with flags, and returns the program's path.
func compiled(t testing.TB, source string, flags ...string) string {
	t.Helper()
	if os.Getenv("XPWC_TEST_EMULATOR") != "" {
		t.Skip("an emulated process cannot start one for the same machine")
	}
	if slices.Contains(flags, sanitizers[0]) && os.Getenv("LD_PRELOAD") != "" {
		t.Skip("the sanitizers must be loaded first")
	}
	setting := func(name string) []string {
		out, err := exec.Command("go", "env", name).Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	language, cc := "-std=c99", strings.TrimSpace(strings.Join(setting("CC"), " "))
	if filepath.Ext(source) == ".cc" {
		language, cc = "-std=c++17", strings.TrimSpace(strings.Join(setting("CXX"), " "))
	}
	path := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)))
	args := append([]string{language, "-O1", "-g", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o", path, "-I.",
		"-I../include", "-I../..", source}, flags...)
	args = append(append(args, setting("CGO_CFLAGS")...), setting("CGO_LDFLAGS")...)
	args = append(args, "-lXNNPACK", "-lpthreadpool", "-lcpuinfo", "-lm", "-ldl", "-pthread")
	out, err := exec.Command(cc, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", cc, strings.Join(args, " "), out)
	return path
}

var sanitizers = []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// reseal makes the sums of a damaged file right, so that what they protect is read all the same.
func reseal(b []byte) {
	le := binary.LittleEndian
	for parity := range 2 {
		offset := 512 * (parity + 1)
		slot := b[offset : offset+128]
		index, size := le.Uint64(slot[8:]), le.Uint64(slot[16:])
		if index < uint64(len(b)) && size >= 128 && size <= uint64(len(b))-index {
			x := b[index : index+size]
			records, slots, text := le.Uint64(x[16:]), le.Uint64(x[32:]), le.Uint64(x[40:])
			length := records*164 + slots*4 + text
			sums := 128 + uint64(le.Uint32(x[24:]))*32 + uint64(le.Uint32(x[56:]))*16
			body := (sums + (length+1023)/1024*8 + 63) / 64 * 64
			if length < size && body < size {
				for i := uint64(0); i*1024 < size-body && sums+8*i+8 <= body; i++ {
					le.PutUint64(x[sums+8*i:], xxh3.Hash(x[body+1024*i:min(body+1024*i+1024, size)]))
				}
				sum := digest.Of(x[:body])
				copy(slot[24:], sum[:])
			}
		}
		le.PutUint64(slot[120:], xxh3.HashSeed(slot[:120], le.Uint64(b[16:])))
	}
	le.PutUint64(b[32:], xxh3.Hash(b[:32]))
}

// structure returns the parts of a sound file that are not payloads.
func structure(b []byte) (parts [][2]int) {
	le := binary.LittleEndian
	for _, offset := range []int{512, 1024} {
		if index := int(le.Uint64(b[offset+8:])); index > 0 {
			parts = append(parts, [2]int{index, index + int(le.Uint64(b[offset+16:]))})
		}
	}
	return append(parts, [2]int{0, 40}, [2]int{512, 640}, [2]int{1024, 1152})
}

// damage changes a few bytes of a file's structure.
func damage(r *rand.Rand, b []byte, parts [][2]int) []byte {
	for range 1 + r.IntN(3) {
		part := parts[r.IntN(len(parts))]
		offset := part[0] + r.IntN(part[1]-part[0])
		switch r.IntN(4) {
		case 0:
			b[offset] ^= 1 << r.IntN(8)
		case 1:
			b[offset] = byte(r.Uint32())
		case 2: // a number that is too large, or nearly
			n := []uint64{1<<64 - 1, 1 << 63, 1 << 32, 1<<32 - 1, uint64(len(b)), uint64(len(b)) - 64}[r.IntN(6)]
			number := binary.LittleEndian.AppendUint64(nil, n)
			copy(b[offset/4*4:min(offset/4*4+4*(1+r.IntN(2)), len(b))], number)
		case 3:
			copy(b[offset:part[1]], b[part[0]:part[0]+r.IntN(part[1]-offset)])
		}
	}
	if r.IntN(4) > 0 {
		reseal(b)
	}
	if r.IntN(8) == 0 {
		b = b[:r.IntN(len(b))]
	}
	return b
}

// Whatever a file has, nothing is read beyond what there is.
func TestNoFileMakesTheReaderReadOutOfBounds(t *testing.T) {
	look := program(t, "look.c", append(slices.Clone(sanitizers), "-DXPWC_READER_LITTLE=0", "-DXPWC_READER_TEST")...)
	r := testkit.Random(t)
	good := golden(t)
	parts := structure(good)
	dir := t.TempDir()
	var files []string
	for i := range 2000 {
		b := bytes.Clone(good)
		if i > 0 {
			b = damage(r, b, parts)
		}
		files = append(files, filepath.Join(dir, fmt.Sprint(i)))
		require.NoError(t, os.WriteFile(files[i], b, 0o400))
	}
	out, err := exec.Command(look, files...).CombinedOutput()
	require.NoError(t, err, "%s", out[max(0, len(out)-4000):])
	require.Equal(t, len(files), strings.Count(string(out), "\n"))
	require.True(t, strings.Contains(string(out), "5 entries of 5 read"))
}

// Both readers accept the same files. Only damage of the index differs: the reader in C checks the whole index at the
// start.
func FuzzBothReadersFindTheSame(f *testing.F) {
	good := golden(f)
	f.Add(good, false)
	pattern := filepath.Join("..", "..", "internal", "format", "testdata", "fuzz", "FuzzDecodeHeader", "*")
	corpus, err := filepath.Glob(pattern)
	require.NoError(f, err)
	for _, path := range corpus {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		_, quoted, ok := strings.Cut(strings.TrimSpace(string(text)), "[]byte(")
		require.True(f, ok)
		header, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
		require.NoError(f, err)
		b := bytes.Clone(good)
		copy(b, header)
		f.Add(b, true)
	}
	r, parts := rand.New(rand.NewPCG(1, 2)), structure(good)
	for range 300 {
		f.Add(damage(r, bytes.Clone(good), parts), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, right bool) {
		if len(b) < 4096 && right {
			return
		}
		if right {
			b = bytes.Clone(b)
			reseal(b)
		}
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, b, 0o400))
		inC, err := reader.Open(path, "")
		if err == nil {
			defer inC.Close()
		}
		inGo, goErr := cachefile.Open(path)
		if goErr == nil {
			defer inGo.Close()
		}
		if err != nil { // the reader in C refuses other formats, for instance ExecuTorch's
			info := cachefile.Info{}
			if goErr == nil {
				info, goErr = inGo.Info()
			}
			if goErr == nil && info.Format == cachefile.Native && len(b) > 4096 { // Verify checks the whole index too
				problems, err := cachefile.Verify(path, nil)
				require.True(t, err != nil || len(problems) > 0, "%v", err)
			}
			return
		}
		if goErr != nil { // in a layout's description, which the reader in C does not read
			require.ErrorIs(t, goErr, cachefile.ErrDamaged)
			return
		}
		i := 0
		for want, goErr := range inGo.Entries() {
			got, err := inC.Entry(i)
			require.NoError(t, err, i)
			require.NoError(t, goErr, i)
			if !want.HasBias {
				want.Bias = ""
			}
			require.Equal(t, [...]any{want.Kernel, want.Bias, want.HasBias, want.Offset, want.Size, want.Sum},
				[...]any{got.Kernel, got.Bias, got.HasBias, int64(got.Offset), int64(len(got.Payload)),
					cachefile.Digest(got.Sum)}, i)
			i++
		}
		require.Equal(t, i, inC.Stats().Entries)
	})
}
