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
	"xpwc/internal/trust"
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
	reporting = "report.html"
)

// A stage is a directory next to an output file, in which the file is made before it appears at its path. It is removed
// with all that is in it, also by an interrupt.
type stage struct {
	path   string // of the output
	dir    *workdir.Dir
	job    *job
	forget func()
	before fs.FileInfo // of the file at path when the stage was made, or nil
	extend bool        // the output has the entries of that file too
	mode   fs.FileMode // of the output
	left   int         // how many damaged entries of that file are not in the output
	stderr io.Writer
}

// newStage makes the stage of an output that has the entries of an existing file too. If the output is one of the
// inputs, also by a link, the error is a usage error. A symbolic link is followed if that is safe.
func newStage(ctx context.Context, path string, stderr io.Writer, inputs ...string) (s *stage, err error) {
	if path, err = trust.Follow(path); err != nil {
		return nil, err
	}
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

// newCacheStage makes the stage of a cache file. It replaces an existing file, which must be empty or a cache, and must
// not be the source, if there is one. A symbolic link is followed if that is safe.
func newCacheStage(ctx context.Context, path string, source *cachefile.File, stderr io.Writer) (*stage, error) {
	if err := source.CheckOutput(path); err != nil {
		return nil, err
	}
	path, err := trust.Follow(path)
	if err != nil {
		return nil, err
	}
	s := &stage{path: path, stderr: stderr}
	if info, err := os.Lstat(path); err == nil {
		s.before = info
	}
	if err := s.make(ctx); err != nil {
		return nil, err
	}
	if s.mode, err = s.outputMode(); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
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
		return usagef("-o %s exists and is not a regular file; choose another path, or remove it", s.path)
	}
	return nil
}

// outputMode is the mode of the file that the output replaces, or the user's mode for new files: what a build makes may
// be read by others, unlike a cache that a program makes for itself. Others may not write to it: programs would refuse
// the file.
func (s *stage) outputMode() (fs.FileMode, error) {
	if s.before != nil {
		return s.before.Mode().Perm() &^ 0o022, nil
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

// write makes a file of size bytes in the stage, and returns when it is on stable storage. When ctx is done it gives
// up.
func (s *stage) write(ctx context.Context, name string, size int64, content func(io.Writer) error) error {
	f, err := os.OpenFile(s.file(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	progress := console.NewProgress(s.stderr, "writing")
	err = content(&reportingWriter{ctx: ctx, w: f, report: func(written int64) { progress.Update(written, size) }})
	progress.Finish()
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

// publish moves a file of the stage, which is on stable storage, to the path of the output. If the existing file was to
// be added to, and has changed since the stage was made, it stays, and the error says so.
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
		return workdir.Rename(s.file(name), s.path)
	})
}

// keep leaves the existing file as it is, but for its mode.
func (s *stage) keep() error {
	if s.before.Mode().Perm() == s.mode {
		return nil
	}
	return os.Chmod(s.path, s.mode)
}

func changed(before, now fs.FileInfo) bool {
	if before == nil || now == nil {
		return before != nil || now != nil
	}
	return !os.SameFile(before, now) || before.Size() != now.Size() || !before.ModTime().Equal(now.ModTime())
}

func (s *stage) remove() error {
	defer s.forget() // after it, so that an interrupt waits until it is removed
	return s.dir.Remove()
}

// inherit keeps the stage for as long as the started process runs, even if this process is killed.
func (s *stage) inherit(cmd *exec.Cmd) {
	if runtime.GOOS != "windows" { // which removes no open files
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.dir.Lock())
	}
}
