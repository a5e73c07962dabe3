//go:build !windows

package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/writer"
)

// Windows refuses to truncate or overwrite a mapped file: see TestAMappedFileCannotBeShortened.

func TestAFileOverwrittenInPlaceIsNotServedFrom(t *testing.T) {
	m := map[string][]byte{"w": harness.Content("w", 100_000)}
	second := filepath.Join(t.TempDir(), "other")
	oc := harness.Open(t, second, nil)
	harness.PackTensors(t, oc, map[string][]byte{"x": harness.Content("x", 150_000)}).MustClose(t)
	require.NoError(t, oc.Close())
	native, err := os.ReadFile(second)
	require.NoError(t, err)
	version := bytes.Clone(native)
	version[8] = 9
	copy(version[32:], make([]byte, 8))
	for name, content := range map[string][]byte{
		"ExecuTorch":       harness.ExecuTorchFile(map[string][]byte{"w": harness.Content("v", 200_000)}),
		"ExecuTorch small": harness.ExecuTorchFile(map[string][]byte{"w": harness.Content("v", 100)}),
		"something else":   bytes.Repeat([]byte("garbage!"), 50_000),
		"native, in use":   native,
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			c := harness.Open(t, path, nil)
			harness.PackTensors(t, c, m).MustClose(t)
			require.NoError(t, c.Close())
			c = harness.Open(t, path, nil)
			running := harness.PackTensors(t, c, m)
			if name != "native, in use" {
				require.NoError(t, running.Close())
			}
			require.NoError(t, os.WriteFile(path, content, 0o600))
			defer harness.RecoverFault(t)()
			s := harness.NewSession(t, c, m)
			k := harness.Load(t, s, "w")
			a := harness.LookUp(s, 42, k, 0)
			if a == harness.NotFound {
				return
			}
			require.True(t, bytes.Equal(harness.PackedFrom(m["w"]), harness.EntryBytes(t, s, a, 100_064)),
				"hit on overwritten bytes")
		})
	}
}

func TestStrictDoesNotServeFromATruncatedFile(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 100_000)}
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	running := harness.PackTensors(t, c, m)
	require.NoError(t, os.Truncate(path, 5000))
	_, err := c.NewSession(xpwc.MapOf(m))
	require.ErrorIs(t, err, xpwc.ErrDamaged)
	require.NoError(t, os.Remove(path))
	defer harness.RecoverFault(t)()
	s := harness.NewSession(t, c, m)
	got, hit := harness.PackWeight(t, s, 42, harness.Load(t, s, "w"), 0, harness.PackedFrom(m["w"]))
	require.True(t, bytes.Equal(harness.PackedFrom(m["w"]), got), "hit: %v", hit)
	_ = running
}

// The next session of a cache whose file was cut off touches nothing of it.
func TestATruncatedFileIsNotServedFrom(t *testing.T) {
	path := harness.Path(t)
	m := harness.Tensors(1, 100_000)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	for _, size := range []int64{5000, 0} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			p := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.WriteFile(p, content, 0o600))
			c := harness.Open(t, p, nil)
			require.NoError(t, os.Truncate(p, size))
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() { require.Nil(t, recover(), "SIGBUS") }()
			harness.PackTensors(t, c, m)
		})
	}
}

func TestAFileDamagedWhileOpenIsSucceededByAGoodOne(t *testing.T) {
	for _, size := range []int64{5000, 0} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			path := harness.Path(t)
			c := harness.Open(t, path, nil)
			harness.PackTensors(t, c, map[string][]byte{"a": harness.Content("a", 10_000)}).MustClose(t)
			require.NoError(t, c.Save())
			require.NoError(t, os.Truncate(path, size))
			harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 1000)}).MustClose(t)
			require.NoError(t, c.Close())
			c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
			require.NoError(t, err)
			harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 1000)}).MustClose(t)
			require.NoError(t, c.Close())
		})
	}
}

func TestADamagedFilesEntriesAreNotInItsSuccessor(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, map[string][]byte{"a": harness.Content("a", 1000)}).MustClose(t)
	require.NoError(t, c.Save())
	require.NoError(t, os.Truncate(path, 5000))
	harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 1000)}).MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, map[string][]byte{"a": harness.Content("a", 1000)}).MustClose(t)
	require.NoError(t, c.Close())
}

// A file that a stranger cuts off takes what was mapped behind its end with it. The next session must not touch it.
func TestTheNextSessionNoticesThatTheFileWasTruncated(t *testing.T) {
	tensors := harness.Tensors(5, 30_000)
	if path := os.Getenv(harness.EnvChild); path != "" { // in a process of its own, which SIGBUS may end
		mode, size, _ := strings.Cut(os.Getenv(harness.EnvRound), " ")
		n, err := strconv.ParseInt(size, 10, 64)
		require.NoError(t, err)
		c := harness.Open(t, path, &xpwc.Options{Prefetch: strings.Contains(mode, "prefetch")})
		first := harness.PackTensors(t, c, tensors)
		require.NoError(t, c.Save())
		require.NoError(t, c.Stats().Damaged)
		if strings.Contains(mode, "closed") {
			first.MustClose(t)
		}
		require.NoError(t, os.Truncate(path, n))
		second := harness.PackTensors(t, c, tensors)
		require.Error(t, c.Stats().Damaged)
		require.NoError(t, c.Save())
		if !strings.Contains(mode, "closed") {
			require.NoError(t, first.Close()) // its weights are gone
		}
		second.MustClose(t)
		require.NoError(t, c.Close())
		fmt.Println("noticed")
		return
	}
	path := filepath.Join(t.TempDir(), "whole")
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, size := range []int{0, 100, 4096, 5000, 100_000, len(whole) - 1} {
		for _, mode := range []string{"found", "found,closed", "packed", "packed,closed", "found,prefetch",
			"packed,prefetch"} {
			t.Run(fmt.Sprint(mode, " ", size), func(t *testing.T) {
				path := harness.Path(t)
				if strings.Contains(mode, "found") {
					require.NoError(t, os.WriteFile(path, whole, 0o600))
				}
				child := harness.StartChild(t, "TestTheNextSessionNoticesThatTheFileWasTruncated", nil,
					harness.EnvChild+"="+path, harness.EnvRound+"="+fmt.Sprint(mode, " ", size))
				child.Await(t, "noticed")
				child.Pass(t)
				c := harness.Open(t, path, &xpwc.Options{Strict: true})
				harness.PackTensors(t, c, tensors).MustClose(t)
				require.Zero(t, c.Stats().Misses, "it was packed afresh")
				require.NoError(t, c.Close())
				aside, err := os.Stat(path + ".damaged")
				require.NoError(t, err)
				require.EqualValues(t, size, aside.Size(), "what the first session has mapped is not written to")
			})
		}
	}
}

// cp writes a file from its beginning on: whoever sets aside what is there so far takes it from under its hands.
func TestAFileBeingCopiedIsLeftAlone(t *testing.T) {
	tensors := harness.Tensors(3, 30_000)
	whole, _ := harness.SmallFile(t, tensors)
	writer.Arrival = 30 * time.Minute // however long this test takes, the file was written to just now
	defer func() { writer.Arrival = 0 }()
	for _, size := range []int{4096, len(whole) / 2, len(whole) - 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			path := harness.Path(t)
			require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
			c := harness.Open(t, path, &xpwc.Options{WriterWait: -1})
			harness.PackTensors(t, c, tensors).MustClose(t)
			require.EqualValues(t, 3, c.Stats().Private[xpwc.ReasonBusy].Entries)
			require.NoError(t, c.Close())
			require.NoFileExists(t, path+".damaged")

			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = file.Write(whole[size:])
			require.NoError(t, errors.Join(err, file.Close()))
			c = harness.Open(t, path, nil)
			harness.PackTensors(t, c, tensors).MustClose(t)
			require.EqualValues(t, 3, c.Stats().Hits.Entries)
			require.NoError(t, c.Close())

			require.NoError(t, os.Truncate(path, int64(size)))
			long := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(path, long, long))
			c = harness.Open(t, path, &xpwc.Options{WriterWait: -1})
			harness.PackTensors(t, c, tensors).MustClose(t)
			require.Empty(t, c.Stats().Private)
			require.NoError(t, c.Close())
			require.FileExists(t, path+".damaged")
		})
	}
}
