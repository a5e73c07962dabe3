//go:build unix

package main

import "syscall"

// The directories of the tests are not to be ones that others can change, whatever the user's umask is.
func init() { syscall.Umask(0o022) }
