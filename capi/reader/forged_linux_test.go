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
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// Nor does a file that was made for a model have XNNPACK read beyond what there is.
func TestNoFileMakesXNNPACKReadOutOfBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling takes most of the time")
	}
	const files = 500
	start := program(t, "start.c")
	forged := program(t, "forged.c", append(slices.Clone(sanitizers), "-DXPWC_READER_LITTLE=0")...)
	r := testkit.Random(t)
	for _, kind := range []string{"int8", "float32"} {
		args := sealedChain(t, start, kind, "6", "64", "96")
		file, digest := args[len(args)-2], args[len(args)-1]
		good, err := os.ReadFile(file)
		require.NoError(t, err)
		parts := structure(good)
		args = append(slices.Clone(args[:len(args)-2]), digest)
		dir := t.TempDir()
		for i := range files {
			b := bytes.Clone(good)
			switch {
			case i == 0:
			case i%2 == 0:
				b = shortenAll(r, b)
			default:
				b = damage(r, b, parts)
			}
			path := filepath.Join(dir, fmt.Sprint(i))
			require.NoError(t, os.WriteFile(path, b, 0o400))
			args = append(args, path)
		}
		out, err := exec.Command(forged, args...).CombinedOutput()
		require.NoError(t, err, "%s", out[max(0, len(out)-4000):])
		require.Contains(t, string(out), "/0: 6 hits\n")
		for i := 2; i < files; i += 2 {
			require.Contains(t, string(out), fmt.Sprintf("/%d: 0 hits\n", i), "each payload is longer than that")
		}
	}
}

// shortenAll has all entries of a file share a payload of some bytes at its end, which is that of a page.
func shortenAll(r *rand.Rand, b []byte) []byte {
	const page = 4096
	b = append(b, make([]byte, 2*page-len(b)%page)...)
	size := 64 * uint64(1+r.IntN(page/64))
	le := binary.LittleEndian
	for _, offset := range []int{512, 1024} {
		index := le.Uint64(b[offset+8:])
		if index == 0 {
			continue
		}
		le.PutUint64(b[offset+40:], uint64(len(b)))
		x := b[index:]
		records := le.Uint64(x[16:])
		rows := 128 + uint64(le.Uint32(x[24:]))*32 + uint64(le.Uint32(x[56:]))*16
		rows += (records*164 + le.Uint64(x[32:])*4 + le.Uint64(x[40:]) + 1023) / 1024 * 8
		rows = (rows + 63) / 64 * 64
		for i := range records {
			row := x[rows+164*i:]
			le.PutUint64(row, uint64(len(b))-size)
			le.PutUint64(row[8:], size)
			le.PutUint64(row[148:], 0)
		}
	}
	reseal(b)
	return b
}
