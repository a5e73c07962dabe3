package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/workdir"
)

// A rewritten is a cache file that is to be rewritten by a cache. The cache opens it by a second name, in a stage: so
// it locks the very file, but what it makes beside the name, or puts in its place, is in the stage, and an interrupt
// leaves the file as it was and nothing else.
type rewritten struct {
	*stage // nil where there are no second names: then the cache works in place, and an interrupt waits until it has
	path   string
	name   string
	was    fs.FileInfo
}

func newRewritten(ctx context.Context, path string) (*rewritten, error) {
	was, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !was.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: %w", path, xpwc.ErrUnsafeFile)
	}
	s := &stage{path: path}
	if err := s.make(ctx); err != nil {
		return nil, err
	}
	name := s.file(linked)
	if !lockable || os.Link(path, name) != nil {
		jobOf(ctx).heed("")
		return &rewritten{path: path, name: path, was: was}, s.remove()
	}
	return &rewritten{s, path, name, was}, nil
}

func (r *rewritten) remove() error {
	if r.stage == nil {
		return nil
	}
	return r.stage.remove()
}

// publish puts the file that the cache has put in the place of the second name at the path, unless nothing was to be
// done. Nobody can commit to the file meanwhile, and it is left as it is if somebody did after the cache had
// rewritten it.
func (r *rewritten) publish(wait time.Duration) error {
	now, err := os.Lstat(r.name)
	if err != nil || r.stage == nil || os.SameFile(now, r.was) {
		return err
	}
	old, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer old.Close()
	for deadline := time.Now().Add(wait); ; time.Sleep(time.Millisecond) {
		locked, err := lockFile(old)
		if err != nil {
			return err
		}
		if locked {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", r.path, xpwc.ErrBusy)
		}
	}
	before, err := generationOf(r.path)
	if err != nil {
		return err
	}
	after, err := generationOf(r.name)
	if err != nil {
		return err
	}
	return r.job.place(func() error {
		at, err := old.Stat()
		if err != nil {
			return err
		}
		if there, err := os.Lstat(r.path); err != nil || !os.SameFile(at, there) || !os.SameFile(at, r.was) || after != before+1 {
			return fmt.Errorf("%s was changed by another program meanwhile, and is left as it is; try again", r.path)
		}
		return workdir.Rename(r.name, r.path)
	})
}

func generationOf(path string) (generation uint64, err error) {
	f, err := cachefile.Open(path)
	if err != nil {
		return 0, err
	}
	info, err := f.Info()
	_ = f.Close()
	return info.Generation, err
}

// named makes errors tell the file by its own name.
func (r *rewritten) named(err error) error {
	if err == nil || r.stage == nil {
		return err
	}
	second, _ := filepath.Abs(r.name)
	return renamedError{err, strings.NewReplacer(second, r.path, r.name, r.path)}
}

type renamedError struct {
	error
	names *strings.Replacer
}

func (e renamedError) Error() string { return e.names.Replace(e.error.Error()) }
func (e renamedError) Unwrap() error { return e.error }
