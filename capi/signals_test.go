//go:build linux && cgo

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// signalPrograms builds a program statically and with the shared library.
func signalPrograms(source string) []program {
	c := compilersFor(source)[0]
	return []program{{source: source, compiler: c, linkage: static}, {source: source, compiler: c, linkage: shared}}
}

func TestTheHostsFaultHandlersSeeItsOwnFaults(t *testing.T) {
	t.Parallel()
	for _, p := range signalPrograms("faults.c") {
		for _, installed := range []string{"before", "after"} {
			t.Run(fmt.Sprint(p, " ", installed), func(t *testing.T) {
				t.Parallel()
				p.run(t, nil, installed, t.TempDir())
			})
		}
	}
	t.Run("dlopen", func(t *testing.T) {
		t.Parallel()
		p := program{
			source: "faults.c", compiler: compilersFor("faults.c")[0],
			linkage: unlinked, flags: []string{"testdata/loaded.c", "-DXPWC_DLOPEN"},
		}
		p.run(t, nil, "dlopen", t.TempDir(), filepath.Join(installed(t), prefix, "lib", "libxpwc.so"))
	})
}

func TestTheHostsOtherSignalsAreItsOwn(t *testing.T) {
	t.Parallel()
	for _, p := range signalPrograms("signals.c") {
		for _, installed := range []string{"before", "after", "before-urgent"} {
			t.Run(fmt.Sprint(p, " ", installed), func(t *testing.T) {
				t.Parallel()
				p.run(t, nil, "handle", installed, t.TempDir())
			})
		}
	}
}

func TestASignalThatTheHostLeavesAloneEndsIt(t *testing.T) {
	t.Parallel()
	for _, p := range signalPrograms("signals.c") {
		for _, signal := range []syscall.Signal{
			syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGSEGV, syscall.SIGABRT,
		} {
			for _, thread := range []string{"on-any-thread", "on-a-thread-that-called"} {
				t.Run(fmt.Sprint(p, " ", signal, " ", thread), func(t *testing.T) {
					t.Parallel()
					out, err := p.try(t, nil, "die-by", fmt.Sprint(int(signal)), thread, t.TempDir())
					var exit *exec.ExitError
					require.True(t, errors.As(err, &exit), "%v\n%s", err, out)
					status := exit.Sys().(syscall.WaitStatus)
					require.True(t, status.Signaled() && status.Signal() == signal, "%v\n%s", err, out)
				})
			}
		}
	}
}

func TestTheLibraryDoesNothingUnasked(t *testing.T) {
	t.Parallel()
	eachWay(t, "idle.c", func(t *testing.T, p program) {
		t.Logf("threads: %s", p.run(t, nil))
	})
}
