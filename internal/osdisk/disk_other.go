//go:build !linux

package osdisk

import (
	"errors"
	"os"
)

// flushFile returns when the content of the file is on the disk itself, on macOS too. Views need Sync first on Windows.
func flushFile(f *os.File) error { return f.Sync() }

// What follows is for Linux.

func copiesUp(*os.File) bool { return false }

func giveBack([]byte) {}

func preferLargePages([]byte) {}

// populate: bytes that cannot be read are a signal here.
func populate([]byte) error { return nil }

// Supply gives private memory its pages. This system cannot.
func Supply([]byte) error { return errors.ErrUnsupported }

// DeskUnit is what the sizes of memory that a [Desk] is moved to are multiples of.
const DeskUnit = 1

// A Desk is memory that has one address after another. This system has none.
type Desk struct{}

// Move moves nothing.
func (*Desk) Move([]byte) (moved bool, err error) { return false, nil }

// Leave has nothing to leave.
func (*Desk) Leave() {}
