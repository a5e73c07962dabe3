//go:build linux && cgo

package reader_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/output"
	"xpwc/models"
	"xpwc/models/described"
)

// chainProgram is the program that chains are sealed for, besides their model.
const chainProgram = "chain"

// sealedChain writes a model with the host start and packs it: its datatype, and its layers, width and hidden width. It
// returns the arguments of the host.
func sealedChain(t *testing.T, start string, chain ...string) []string {
	t.Helper()
	dir := t.TempDir()
	model := append([]string{filepath.Join(dir, "chain.safetensors")}, chain...)
	out, err := exec.Command(start, append([]string{"write"}, model...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)

	m, err := described.Open(model[0], model[0]+".json")
	require.NoError(t, err)
	path := filepath.Join(dir, "chain.xpwc")
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	require.NoError(t, models.Pack(cache, m.DataMap(), m.Subgraph))
	require.NoError(t, cache.Close())
	require.NoError(t, m.Close())
	content, err := os.ReadFile(model[0])
	require.NoError(t, err)
	digest := xpwc.DigestOf(content)
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, output.Write(path+".sealed", func(w *os.File) error {
		programs := func(cachefile.Entry) []cachefile.Digest {
			return []cachefile.Digest{xpwc.DigestOf([]byte(chainProgram))}
		}
		return f.Write(w, nil, cachefile.WriteOptions{Seal: &digest, Programs: programs})
	}))
	return append(model, path+".sealed", digest.String())
}

// Compiling takes most of the time, with the sanitizers half a minute where others work too.
func TestTheReaderServesWhereALibraryWithThreadsHasTrouble(t *testing.T) {
	start := program(t, "start.c")
	const little = "-DXPWC_READER_LITTLE=0" // look-ups of small tensors can hit
	hosts := []string{program(t, "processes.c", little)}
	if !testing.Short() {
		flags := append(slices.Clone(sanitizers), little, "-DNO_ADDRESS_LIMIT")
		hosts = append(hosts, program(t, "processes.c", flags...))
	}
	for _, kind := range []string{"int8", "float32"} {
		args := sealedChain(t, start, kind, "6", "64", "96")
		for _, host := range hosts {
			out, err := exec.Command(host, args...).CombinedOutput()
			require.NoError(t, err, "%s %s\n%s", kind, host, out)
		}
		out, err := exec.Command(start, append([]string{"run"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		if kind == "int8" { // 36 KiB
			const want = " hits 0 misses 6 shared 6 packed 0 asked 0"
			require.Contains(t, string(out), want, "little is packed and compared")
		} else { // 144 KiB
			require.Contains(t, string(out), " hits 6 misses 0 shared 0 packed 0 asked 0")
		}
	}
}

func TestTensorsOfAtMost64KiBArePackedAndCompared(t *testing.T) {
	start := program(t, "start.c")
	for width, want := range map[string]string{
		"256": "hits 0 misses 1 shared 1 packed 0 asked 0 the tensors have at most 64 KiB together",
		"257": "hits 1 misses 0 shared 0 packed 0 asked",
	} {
		args := sealedChain(t, start, "int8", "1", width, "256")
		out, err := exec.Command(start, append([]string{"run"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), want, width)
	}
}
