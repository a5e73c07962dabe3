//go:build unix

package main

import "golang.org/x/sys/unix"

// mayWrite reports whether the system lets this process write to a file, or make files in a directory.
func mayWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }
