package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/workdir"
)

// The names of files in the stage.
const (
	packing   = "packing.xpwc"
	embedding = "embedding.safetensors"
	converted = "converted"
	pulled    = "pulled.xpwc"
	proving   = "proving.xpwc"
	linked    = "linked.xpwc"
)

// A stage is a directory beside an output file, in which the file is made before it appears at its path. It is removed as a whole, also
// by an interrupt.
type stage struct {
	path   string // of the output
	dir    *workdir.Dir
	job    *job
	forget func()
	before fs.FileInfo // of the file at path when the stage was made, or nil
	extend bool        // that file is added to, not replaced by whatever
	mode   fs.FileMode // of the output
	left   int         // how many damaged entries of what is added to are not in the output
	stderr io.Writer
}

// newStage makes the stage of an output that what is there already is added to. The inputs must be other files, however their paths are
// written or linked: an error of that is a usage error.
func newStage(ctx context.Context, path string, stderr io.Writer, inputs ...string) (s *stage, err error) {
	s = &stage{path: path, stderr: stderr, extend: true}
	if s.before, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		s.before, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.before != nil {
		if err := s.checkOutput(inputs); err != nil {
			return nil, err
		}
	}
	if err := s.make(ctx); err != nil {
		return nil, err
	}
	if s.mode, err = s.outputMode(); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// newCacheStage makes the stage of a cache file for its owner only, as programs make them, which replaces what is there: that must be empty
// or a cache, and not the source, if there is one. A symbolic link is followed.
func newCacheStage(ctx context.Context, path string, source *cachefile.File, stderr io.Writer) (*stage, error) {
	if err := source.CheckTarget(path); err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	s := &stage{path: path, mode: 0o600, stderr: stderr}
	return s, s.make(ctx)
}

func (s *stage) make(ctx context.Context) (err error) {
	s.job = jobOf(ctx)
	s.forget, err = s.job.making(func() (err error) {
		s.dir, err = workdir.New(filepath.Dir(s.path))
		return err
	}, func() { _ = s.dir.Remove() })
	return err
}

func (s *stage) checkOutput(inputs []string) error {
	at, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, input := range inputs {
		if info, err := os.Stat(input); err == nil && at != nil && os.SameFile(info, at) {
			return usagef("-o %s is the same file as the input %s; choose another path", s.path, input)
		}
	}
	if !s.before.Mode().IsRegular() {
		return usagef("-o %s is there and is no regular file; choose another path, or remove it", s.path)
	}
	return nil
}

// outputMode is that of the file which the output replaces, or what the user gives to new files: a build's products may be read by others,
// unlike a cache that a program makes for itself.
func (s *stage) outputMode() (fs.FileMode, error) {
	if s.before != nil {
		return s.before.Mode().Perm(), nil
	}
	f, err := os.OpenFile(s.file("mode"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

// file is the path of a file in the stage.
func (s *stage) file(name string) string { return s.dir.File(name) }

// write makes a file of size bytes in the stage, and returns when it is on stable storage. When ctx is done it gives up.
func (s *stage) write(ctx context.Context, name string, size int64, content func(io.Writer) error) error {
	f, err := os.OpenFile(s.file(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	bar := console.NewProgress(s.stderr, "writing")
	err = content(&reportingWriter{ctx: ctx, w: f, report: func(written int64) { bar.Update(written, size) }})
	bar.Finish()
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// reportingWriter writes in pieces, reports how much it wrote, and fails when its context is done.
type reportingWriter struct {
	ctx     context.Context
	w       io.Writer
	written int64
	report  func(written int64)
}

func (w *reportingWriter) Write(b []byte) (n int, err error) {
	const piece = 1 << 20
	for n < len(b) || n == 0 {
		if err := w.ctx.Err(); err != nil {
			return n, err
		}
		m, err := w.w.Write(b[n:min(len(b), n+piece)])
		n += m
		w.written += int64(m)
		if err != nil || len(b) == 0 {
			return n, err
		}
		w.report(w.written)
	}
	return n, nil
}

// publish puts a file of the stage, which is on stable storage, at the output's path. If the file there is another than when the stage was
// made, and was to be added to, it stays, and the error says so.
func (s *stage) publish(name string) error {
	if err := os.Chmod(s.file(name), s.mode); err != nil {
		return err
	}
	return s.job.place(func() error {
		now, err := os.Lstat(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			now, err = nil, nil
		}
		if err != nil {
			return err
		}
		if s.extend && changed(s.before, now) {
			return fmt.Errorf("%s was changed by another program meanwhile, and is left as it is; try again", s.path)
		}
		if err := os.Rename(s.file(name), s.path); err != nil {
			return err
		}
		return syncDir(filepath.Dir(s.path))
	})
}

func changed(before, now fs.FileInfo) bool {
	if before == nil || now == nil {
		return before != nil || now != nil
	}
	return !os.SameFile(before, now) || before.Size() != now.Size() || !before.ModTime().Equal(now.ModTime())
}

// syncDir returns when the names in a directory are on stable storage, where a system can tell.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync() // Windows flushes no directories
	return f.Close()
}

func (s *stage) remove() error {
	defer s.forget() // after it, so that an interrupt waits until it is removed
	return s.dir.Remove()
}

// inherit keeps the stage of a process that this one starts from being removed for as long as it runs, should this one be killed.
func (s *stage) inherit(cmd *exec.Cmd) {
	if runtime.GOOS != "windows" { // where what is open cannot be removed
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.dir.Lock())
	}
}
