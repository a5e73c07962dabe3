package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode"
)

// results is standard output, and the first error of writing to it: what a command has found out, and could not print,
// is lost to a script that goes by the exit code. What could control a terminal is not printed: paths, and names in
// files, can have it.
type results struct {
	io.Writer
	err error
}

func (r *results) Write(b []byte) (int, error) {
	_, err := r.Writer.Write(withoutControls(b))
	if r.err == nil {
		r.err = err
	}
	return len(b), err
}

// withoutControls replaces control characters but those that lay out text.
func withoutControls(b []byte) []byte {
	controls := func(c rune) bool { return unicode.IsControl(c) && !strings.ContainsRune("\n\t\r", c) }
	if bytes.IndexFunc(b, controls) < 0 {
		return b
	}
	return bytes.Map(func(c rune) rune {
		if controls(c) {
			return '?'
		}
		return c
	}, b)
}

// Fd is that of the file, by which a terminal is known, or no file's.
func (r *results) Fd() uintptr {
	if f, ok := r.Writer.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
