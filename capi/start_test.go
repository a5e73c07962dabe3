//go:build linux && cgo

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLibraryCostsNothingUntilItIsUsed(t *testing.T) {
	t.Parallel()
	eachWay(t, "start.c", func(t *testing.T, p program) { p.run(t, nil, "linked", t.TempDir()) })
}

func TestAStaticInitialiserMayCallTheLibrary(t *testing.T) {
	t.Parallel()
	eachWay(t, "global.cc", func(t *testing.T, p program) { p.run(t, nil, t.TempDir()) })
}

func TestWhereGoCannotStartTheCallSaysSo(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"threads", "space", "memory"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			eachWay(t, "start.c", func(t *testing.T, p program) { p.run(t, nil, limit, t.TempDir()) })
		})
	}
}

func TestTheHostsLimitOfOpenFilesStays(t *testing.T) {
	t.Parallel()
	eachWay(t, "start.c", func(t *testing.T, p program) { p.run(t, nil, "files", t.TempDir()) })
}

func TestAChildOfAHostThatHasNotCalledTheLibraryCallsIt(t *testing.T) {
	t.Parallel()
	eachWay(t, "start.c", func(t *testing.T, p program) { p.run(t, nil, "child", t.TempDir()) })
}

func TestAChildOfAHostThatHasIsToldSo(t *testing.T) {
	t.Parallel()
	eachWay(t, "fork.cc", func(t *testing.T, p program) { p.run(t, nil, t.TempDir()) })
}

func TestAHandlerOfForksMayCallTheLibrary(t *testing.T) {
	t.Parallel()
	for _, handler := range []string{"prepare", "parent", "child"} {
		for _, moment := range []string{"first", "failed", "later"} {
			t.Run(handler+" "+moment, func(t *testing.T) {
				t.Parallel()
				eachWay(t, "start.c", func(t *testing.T, p program) {
					p.run(t, nil, "handler", handler, moment, t.TempDir())
				})
			})
		}
	}
}

func TestAProfilersHandlerDoesNotOverflowGosStacks(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"before", "after"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			eachWay(t, "start.c", func(t *testing.T, p program) { p.run(t, nil, "profiled", moment, t.TempDir()) })
		})
	}
}

// Go would write a line for each package that it initialises, and to the descriptor of errors.
func TestTheHostsEnvironmentIsNotForTheLibrary(t *testing.T) {
	t.Parallel()
	eachWay(t, "start.c", func(t *testing.T, p program) {
		env := []string{"GODEBUG=inittrace=1,gctrace=1", "GOGC=1", "GOMAXPROCS=1"}
		require.Empty(t, p.run(t, env, "linked", t.TempDir()))
	})
}
