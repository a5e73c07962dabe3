//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// examples/hello is the C++ host of the README, with xpwc and without.
func TestTheHostOfOnePageFindsAtItsSecondStartWhatTheFirstPacked(t *testing.T) {
	t.Parallel()
	for _, c := range compilersFor("hello.cc") {
		for _, l := range linkages {
			p := program{source: "../../examples/hello/hello.cpp", compiler: c, linkage: l}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "hello.xpwc")
				require.Equal(t, "0 found; y[0] = 2\n", p.run(t, nil, "2", file))
				require.Equal(t, "1 found; y[0] = 3\n", p.run(t, nil, "3", file))
			})
		}
		p := program{source: "../../examples/hello/without.cpp", compiler: c, linkage: static}
		require.Equal(t, "y[0] = 2\n", p.run(t, nil))
	}
}

func TestTheHostOfOnePageSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	notes := filepath.Join(t.TempDir(), "notes")
	require.NoError(t, os.WriteFile(notes, []byte("my notes"), 0o600))
	p := program{source: "../../examples/hello/hello.cpp", compiler: compilersFor("hello.cc")[0], linkage: static}
	for path, text := range map[string]string{
		notes: "hello: " + notes + ": not a packed weights cache",
		filepath.Join(t.TempDir(), "absent", "hello.xpwc"): "no such file or directory",
	} {
		out, err := p.try(t, nil, "2", path)
		require.Error(t, err)
		require.Contains(t, out, text)
	}
}
