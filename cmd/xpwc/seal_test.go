package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/registrytest"
)

// requireSealed checks that nobody can write to a file, and that a program with the model finds all it needs in it.
func requireSealed(t *testing.T, dir, model, name string) {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o222)
	warm, _ := runJSON(t, dir, model, "--cache", name)
	require.Zero(t, warm.Cache.Packed+warm.Cache.Private+warm.Cache.BytesWritten)
	require.Positive(t, warm.Cache.Hits)
}

func TestASealedFileIsOfOneModelAndNobodyWritesToIt(t *testing.T) {
	dir, model := t.TempDir(), faceModel(t)
	content, err := os.ReadFile(model)
	require.NoError(t, err)
	digest := xpwc.DigestOf(content).String()

	first := packJSON(t, dir, model, "--sealed", "-o", "a.xpwc")
	require.Equal(t, digest, first.Sealed)
	requireSealed(t, dir, model, "a.xpwc")
	packJSON(t, dir, filepath.Join(filepath.Dir(model), "selfie_segmentation.tflite"), "-o", "b.xpwc")
	again := packJSON(t, dir, model, "--sealed", "-o", "b.xpwc")
	require.Equal(t, first.Entries, again.Entries, "what was there is replaced")
	requireSealed(t, dir, model, "b.xpwc")
	require.Empty(t, packJSON(t, dir, model, "-o", "open.xpwc").Sealed)

	s := registrytest.Start(t)
	for _, name := range []string{"a", "open"} {
		code, _, stderr := xpwcIn(t, dir, "push", s.Ref("face:"+name), name+".xpwc")
		require.Zero(t, code, stderr)
	}
	pulled := decoded[pulling](t, dir, "pull", s.Ref("face:a"), "--sealed", "-o", "pulled.xpwc")
	require.Equal(t, digest, pulled.Sealed)
	requireSealed(t, dir, model, "pulled.xpwc")

	code, _, stderr := xpwcIn(t, dir, "pull", s.Ref("face:open"), "--sealed", "-o", "c.xpwc")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, errNotSealed.Error())
	pulled = decoded[pulling](t, dir, "pull", s.Ref("face:open"), "--sealed", "--model", model, "-o", "c.xpwc")
	require.Equal(t, digest, pulled.Sealed)
	requireSealed(t, dir, model, "c.xpwc")
}
