//go:build !linux

package osdisk

import (
	"errors"
	"os"
)

// These are for Linux.

func copiesUp(*os.File) bool { return false }

func giveBack([]byte) {}

func preferLargePages([]byte) {}

func populateCached(*os.File, int64, []byte) error { return errors.ErrUnsupported }

// Supply gives a part of a written mapping, or of private memory, its pages.
func Supply([]byte) error { return errors.ErrUnsupported }
