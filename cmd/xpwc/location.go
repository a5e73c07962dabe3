package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
)

// A location is where a cache is: in a file of its own, or in a safetensors file.
type location struct {
	path string
	in   *embedded // nil for a file of its own
}

// locate finds the cache in the file at path. Every file that is not a safetensors file is left to package cachefile
// and its errors.
func locate(path string) (location, error) {
	l := location{path: path}
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return l, nil // an index of safetensors files has no cache in it
	}
	e, err := describeEmbedding(path)
	switch {
	case errors.Is(err, xpwc.ErrUnknownTensor):
		return l, fmt.Errorf("%s: a safetensors file without packed weights; "+
			"xpwc pack --embed-beside makes one with them: %w", path, cachefile.ErrNotCache)
	case err == nil:
		l.in = e
	}
	return l, nil
}

// ofModel adds to the error of a file that is no cache what is done with a model.
func ofModel(err error) error {
	if errors.Is(err, cachefile.ErrNotCache) {
		err = fmt.Errorf("%w; xpwc pack makes one of a model, and xpwc run shows a model's inputs and outputs", err)
	}
	return err
}

// withFile calls do with an open cache file, or with the packed weights in a safetensors file.
func withFile(path string, do func(f *cachefile.File) error) error {
	at, err := locate(path)
	if err != nil {
		return err
	}
	return at.with(do)
}

// with calls do with the open cache.
func (l location) with(do func(f *cachefile.File) error) error {
	if l.in == nil {
		f, err := cachefile.Open(l.path)
		if err != nil {
			return ofModel(err)
		}
		return errors.Join(do(f), f.Close())
	}
	return l.read(func(packed io.ReaderAt) error {
		f, err := cachefile.NewFile(packed, l.in.Bytes)
		if err != nil {
			return err
		}
		return do(f)
	})
}

func (l location) verify(progress func(done, total int64)) (problems []cachefile.Problem, err error) {
	if l.in == nil {
		problems, err = cachefile.Verify(l.path, progress)
		return problems, ofModel(err)
	}
	err = l.read(func(packed io.ReaderAt) error {
		problems, err = cachefile.VerifyReader(packed, l.in.Bytes, progress)
		return err
	})
	return problems, err
}

// read calls do with what reads the tensor.
func (l location) read(do func(packed io.ReaderAt) error) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	return errors.Join(do(io.NewSectionReader(f, l.in.Offset, l.in.Bytes)), f.Close())
}

// note says where offsets begin.
func (e *embedded) note() string {
	return fmt.Sprintf("the packed weights are the tensor %s, %s from byte %d on; offsets begin there", e.Tensor,
		console.Size(e.Bytes), e.Offset)
}
