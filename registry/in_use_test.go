//go:build cgo

package registry_test

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/registrytest"
)

const ready = "the model is loaded"

func TestAPullOverAFileThatAProcessUsesLeavesItWhatItMapped(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	push(t, s.Ref("face:v1"), cache)
	prev, err := os.Stat(cache)
	require.NoError(t, err)

	user := node("native", "TestNodeUsesTheCacheWhileItIsReplaced", envCache+"="+cache, envModel+"="+modelFile(t))
	in, err := user.StdinPipe()
	require.NoError(t, err)
	out, err := user.StdoutPipe()
	require.NoError(t, err)
	user.Stderr = user.Stdout
	require.NoError(t, user.Start())
	defer func() { _ = user.Process.Kill() }()
	var said strings.Builder
	lines := bufio.NewScanner(io.TeeReader(out, &said))
	for lines.Scan() && lines.Text() != ready {
	}
	require.Equal(t, ready, lines.Text(), &said)

	_, err = pullAt(t.Context(), s.Ref("face:v1"), layoutOf(t, cache), cache, nil)
	require.NoError(t, err)
	cur, err := os.Stat(cache)
	require.NoError(t, err)
	require.False(t, os.SameFile(prev, cur))
	requireAlone(t, cache)
	require.NoError(t, in.Close())
	for lines.Scan() {
	}
	require.NoError(t, user.Wait(), &said)
	require.Contains(t, said.String(), "--- PASS: TestNodeUsesTheCacheWhileItIsReplaced")
}

// TestNodeUsesTheCacheWhileItIsReplaced is the other process of the test above.
func TestNodeUsesTheCacheWhileItIsReplaced(t *testing.T) {
	if os.Getenv(envNode) == "" {
		t.Skip("it is a part of another test")
	}
	cache, model := os.Getenv(envCache), os.Getenv(envModel)
	l := load(t, model, cache)
	outputs := l.infer(t)
	_, err := os.Stdout.WriteString("\n" + ready + "\n")
	require.NoError(t, err)
	_, err = io.ReadAll(os.Stdin) // until the file was replaced
	require.NoError(t, err)
	require.Equal(t, outputs, l.infer(t))

	// The next session follows the path, through another handle of the same cache.
	next := load(t, model, cache)
	require.Equal(t, l.cache.Stats(), next.cache.Stats())
	require.Equal(t, outputs, next.infer(t))
	next.close(t)
	stats := l.close(t)
	require.Zero(t, stats.Packed)
	require.Zero(t, stats.Misses)
}

func TestCopiesOfOneRegistryFileAreFilesOfTheirOwn(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	push(t, s.Ref("face:v1"), cache)
	identities := map[[16]byte]bool{}
	for range 3 { // at one path, as a fleet updates it
		file := filepath.Join(filepath.Dir(cache), "pulled.xpwc")
		_, err := pullAt(t.Context(), s.Ref("face:v1"), layoutOf(t, cache), file, nil)
		require.NoError(t, err)
		identities[infoOf(t, file).ID] = true
	}
	require.Len(t, identities, 3)
}
