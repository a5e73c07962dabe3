//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// examples/hello is the C++ host of the README.
func TestTheHostOfOnePageFindsAtItsSecondStartWhatTheFirstPacked(t *testing.T) {
	t.Parallel()
	for _, c := range compilersFor("hello.cc") {
		for _, l := range linkages {
			p := program{source: "../../examples/hello/hello.cpp", compiler: c, linkage: l}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "hello.xpwc")
				require.Equal(t, "y[0] = 2; packed 1, found 0\n", p.run(t, nil, file))
				require.Equal(t, "y[0] = 2; packed 0, found 1\n", p.run(t, nil, file))
			})
		}
	}
}

func TestTheHostOfOnePageSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	notes := filepath.Join(t.TempDir(), "notes")
	require.NoError(t, os.WriteFile(notes, []byte("my notes"), 0o600))
	p := program{source: "../../examples/hello/hello.cpp", compiler: compilersFor("hello.cc")[0], linkage: static}
	for path, says := range map[string]string{
		notes: "hello: " + notes + ": not a packed weights cache",
		filepath.Join(t.TempDir(), "absent", "hello.xpwc"): "no such file or directory",
	} {
		out, err := p.try(t, nil, path)
		require.Error(t, err)
		require.Contains(t, out, says)
	}
}
