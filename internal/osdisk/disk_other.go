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

// A Desk is memory that has one address after another. This system has none.
type Desk struct{}

// Move moves nothing.
func (*Desk) Move([]byte) (moved bool, err error) { return false, nil }

// Leave is not called.
func (*Desk) Leave([]byte) error { return nil }

// Close has nothing to give up.
func (*Desk) Close() error { return nil }
