package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/digest"
	"xpwc/internal/tests/registrytest"
	"xpwc/models/executorch"
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

// A reader that gets the bytes of a delegate believes what the file has for them.
func TestAFileOfAProgramIsSealedForItsDelegates(t *testing.T) {
	dir, model := t.TempDir(), program(t, mobilenet)
	p, err := executorch.Open(model)
	require.NoError(t, err)
	delegates, err := p.PackingDelegates()
	require.NoError(t, errors.Join(err, p.Close()))
	require.NotEmpty(t, delegates)
	packJSON(t, dir, model, "--sealed", "-o", "a.xpwc")
	s := registrytest.Start(t)
	code, _, stderr := xpwcIn(t, dir, "push", s.Ref("mobilenet:a"), "a.xpwc")
	require.Zero(t, code, stderr)
	decoded[pulling](t, dir, "pull", s.Ref("mobilenet:a"), "--sealed", "-o", "pulled.xpwc")
	packed := map[string]bool{} // XNNPACK of 2024 packs some kernels without a look-up
	for _, e := range reported[inspection](t, dir, 0, "inspect", "a.xpwc").Entries {
		packed[e.Kernel] = true
	}
	require.NotEmpty(t, packed)
	for _, name := range []string{"a.xpwc", "pulled.xpwc"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		for w, all := range delegates {
			for _, delegate := range all {
				if !packed[w.Kernel] {
					continue
				}
				stamp := digest.OfStrings("sealed", delegate.String()+" "+w.Kernel)
				require.True(t, bytes.Contains(content, stamp[:]), "%s: %s", name, w.Kernel)
			}
		}
	}
}
