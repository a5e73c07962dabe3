//go:build linux && cgo

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"

	"xpwc/internal/tests/testkit"
)

func TestASecondProcessFindsEverythingAndPacksNothing(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, p program) {
		for _, maps := range [][2]string{{"callbacks", "table"}, {"table", "callbacks"}} {
			path := filepath.Join(t.TempDir(), "cache")
			p.run(t, nil, path, "cold", maps[0])
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			oldInfo, err := os.Stat(path)
			require.NoError(t, err)
			for _, m := range maps {
				p.run(t, nil, path, "warm", m)
			}
			reread, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, content, reread)
			newInfo, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, oldInfo.ModTime(), newInfo.ModTime())
		}
	}
	eachWay(t, "warm.c", test)
	for _, c := range testkit.Drawn(t, compilersFor("warm.cc")) { // a C++ host
		p := program{source: "warm.c", compiler: c, linkage: static}
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// inDirectory are programs that are given an empty directory.
var inDirectory = map[string]string{
	"Every function refuses arguments that make no sense":                       "misuse.c",
	"A handle that was closed, or never was, is refused":                        "handles.c",
	"Calls too early, too late or twice behave as documented":                   "lifecycle.c",
	"What the data map's callbacks fail with comes back, and nothing is leaked": "failing_callbacks.c",
	"Callbacks may call the library":                                            "reentrant.c",
	"Each thread has its own last error":                                        "last_error.c",
	"The options behave as documented":                                          "options.c",
	"A C++ host goes on in memory if it asks for that, and knows why":           "fallback.cc",
	"What is packed from a source that changes meanwhile is not kept":           "changed.c",
	"Every member of a packing counts":                                          "packing.c",
	"Every member of a C++ host's packing arrives":                              "packing.cc",
	"Names, trim, compact and save behave as documented":                        "maintenance.c",
	"Messages, progress and figures report what happened":                       "watching.c",
	"Why a start packs, compares, reads and waits":                              "reasons.c",
	"A model that was moved or copied is read once in each place":               "moved.c",
	"A file's stamp changes with the file":                                      "stamp.c",
	"A host in a sandbox has a descriptor and no path":                          "sandbox.c",
	"A child of fork executes a runtime, and its parent goes on":                "fork.c",
}

func TestTheHeaderIsRight(t *testing.T) {
	t.Parallel()
	for behaviour, source := range inDirectory {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			eachWay(t, source, func(t *testing.T, p program) { p.run(t, nil, t.TempDir()) })
		})
	}
}

func TestADigestIsTheOneOfGo(t *testing.T) {
	t.Parallel()
	eachWay(t, "digest.c", func(t *testing.T, p program) {
		var sizes []string
		var want strings.Builder
		for _, size := range []int{0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 1 << 20, 1<<20 + 7} {
			content := make([]byte, size)
			for i := range content {
				content[i] = byte(i * 7)
			}
			sizes = append(sizes, fmt.Sprint(size))
			fmt.Fprintf(&want, "%v\n", xpwc.DigestOf(content))
		}
		require.Equal(t, want.String(), p.run(t, nil, sizes...))
	})
}

func TestThreadsCreateAndExecuteAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachWay(t, "threads.cc", func(t *testing.T, p program) { p.run(t, nil, t.TempDir(), "40") })
}

func TestWhileAnotherProcessPacksOneGoesOnPrivately(t *testing.T) {
	t.Parallel()
	eachWay(t, "busy.c", func(t *testing.T, p program) {
		path := filepath.Join(t.TempDir(), "cache")
		ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
		defer cancel()
		packing := command(ctx, t.TempDir(), nil, p.build(t), path, "pack")
		input, err := packing.StdinPipe()
		require.NoError(t, err)
		output, err := packing.StdoutPipe()
		require.NoError(t, err)
		var errs bytes.Buffer
		packing.Stderr = &errs
		require.NoError(t, packing.Start())
		line, err := bufio.NewReader(output).ReadString('\n')
		if err == nil {
			require.Equal(t, "packing\n", line)
			p.run(t, nil, path, "meet")
			_, err = input.Write([]byte("\n"))
		}
		require.NoError(t, err)
		require.NoError(t, packing.Wait(), errs.String())
	})
}
