package main

import (
	"io"
	"os"
)

// results is standard output, and the first error of writing to it: what a command has found out, and could not print,
// is lost to a script that goes by the exit code.
type results struct {
	io.Writer
	err error
}

func (r *results) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// Fd is that of the file, by which a terminal is known, or no file's.
func (r *results) Fd() uintptr {
	if f, ok := r.Writer.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
