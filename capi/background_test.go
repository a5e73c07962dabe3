//go:build linux && cgo

package main

import (
	"testing"

	"xpwc/internal/tests/thindisk"
)

func TestWhatGoesWrongInTheBackgroundIsLoggedWhenItHappens(t *testing.T) {
	t.Parallel()
	t.Run("packed weights are damaged", func(t *testing.T) {
		t.Parallel()
		eachWay(t, "background.c", func(t *testing.T, p program) { p.run(t, nil, "damaged", t.TempDir()) })
	})
	t.Run("the file is gone", func(t *testing.T) {
		t.Parallel()
		eachWay(t, "background.c", func(t *testing.T, p program) { p.run(t, nil, "replaced", t.TempDir()) })
	})
	t.Run("the disk fails", func(t *testing.T) {
		t.Parallel()
		eachWay(t, "background.c", func(t *testing.T, p program) {
			dir, ballast := thindisk.Mount(t)
			p.run(t, nil, "disk", dir, ballast)
		})
	})
}

func TestAForkedChildIsRightAfterItsParentsCommitHasFailed(t *testing.T) {
	t.Parallel()
	eachWay(t, "ended.c", func(t *testing.T, p program) {
		dir, ballast := thindisk.Mount(t)
		p.run(t, nil, dir, ballast)
	})
}
