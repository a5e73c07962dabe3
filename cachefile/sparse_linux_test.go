package cachefile_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/tests/testkit"
)

const envLimited = "XPWC_TEST_LIMITED"

// sparse makes a file of 64 GiB that takes a few pages of the disk.
func sparse(t *testing.T, parts map[int64][]byte) (path string) {
	path = filepath.Join(t.TempDir(), "cache")
	testkit.Sparse(t, path, sparseSize, parts)
	return path
}

const sparseSize = 64 << 30

// claim is the header of an index, and the header of a file that has it, as large as a sparse file can.
func claim(count func(index []byte, size uint64)) map[int64][]byte {
	const indexAt, size = 8192, sparseSize - 16384
	_, index, err := format.EncodeGeneration(1, 0, nil, nil)
	if err != nil {
		panic(err)
	}
	index = index[:128]
	count(index, size)
	slot := format.Slot{Generation: 1, IndexOffset: indexAt, IndexSize: size, End: sparseSize,
		IndexSum: digest.Of(index), Records: binary.LittleEndian.Uint64(index[16:])}
	header := format.NewHeader(id)
	b, offset := slot.Encode(id)
	copy(header[offset:], b)
	return map[int64][]byte{0: header, indexAt: index}
}

// A small file can claim an index larger than the memory of the machine.
func TestAnIndexThatIsAHoleTakesNoMemory(t *testing.T) {
	if os.Getenv(envLimited) == "" {
		cmd := testkit.Command("-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), envLimited+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	const limit = 512 << 20
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}))
	le := binary.LittleEndian
	footer := make([]byte, format.FooterSize)
	le.PutUint32(footer[8:], 1<<31)
	le.PutUint32(footer[12:], 0x58505743)
	le.PutUint32(footer[16:], format.TrailerVersion)
	for name, parts := range map[string]map[int64][]byte{
		"strings": claim(func(b []byte, size uint64) { le.PutUint64(b[40:], size*1024/1032-4096) }),
		"records": claim(func(b []byte, size uint64) {
			const n = 1 << 28
			le.PutUint64(b[16:], n)
			le.PutUint64(b[32:], 2*n)
			le.PutUint64(b[40:], size*1024/1032-4096-n*(164+8))
		}),
		"ExecuTorch's": {0: []byte("packed"), sparseSize - format.FooterSize: footer},
	} {
		t.Run(name, func(t *testing.T) {
			path := sparse(t, parts)
			_, err := cachefile.Open(path)
			require.ErrorIs(t, err, cachefile.ErrDamaged)
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			_, err = cachefile.NewFile(f, sparseSize)
			require.ErrorIs(t, err, cachefile.ErrDamaged)
			problems, err := cachefile.Verify(path, nil)
			require.NoError(t, err)
			require.NotEmpty(t, problems)
		})
	}
}
