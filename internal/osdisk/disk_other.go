//go:build !linux

package osdisk

import "os"

// flushFile returns when the content of the file is on the disk itself, on macOS too. Views need Sync first on Windows.
func flushFile(f *os.File) error { return f.Sync() }

// What follows is for Linux.

// Supply does nothing: page faults supply the pages.
func (*Disk) Supply(_, _ int64) error { return nil }

func (*Disk) CopiesUp() bool { return false }

func (mapping) GiveBack(_, _ int) {}

func preferLargePages([]byte) {}

// populate: bytes that cannot be read are a signal here.
func populate([]byte) error { return nil }

// Supply gives memory its pages, ready to be written. This system cannot.
func Supply([]byte) {}

// WindowUnit divides the sizes of memory that a [Window] moves to.
const WindowUnit = 1

// A Window is memory whose pages move from address to address. This system has none.
type Window struct{}

// Move moves nothing.
func (*Window) Move([]byte) (moved bool, err error) { return false, nil }

// Detach does nothing.
func (*Window) Detach() {}
