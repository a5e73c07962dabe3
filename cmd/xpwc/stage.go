package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/fd"
	"xpwc/internal/output"
	"xpwc/internal/trust"
)

// A newFile is a file that is written for a path, or a temporary one. An interrupt removes it too.
type newFile struct {
	*output.File
	ctx    context.Context
	forget func()
}

func makeFile(ctx context.Context, path string) (*newFile, error) {
	f, err := output.New(path)
	if err != nil {
		return nil, err
	}
	return &newFile{f, ctx, jobOf(ctx).onInterrupt(f.Discard)}, nil
}

func (f *newFile) discard() {
	f.Discard()
	f.forget()
}

// with opens the file as a cache file to be looked into, as long as do runs.
func (f *newFile) with(do func(*cachefile.File) error) error { return within(f.File.File, do) }

// within looks into an open cache file.
func within(file *os.File, do func(*cachefile.File) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	c, err := cachefile.NewFile(file, info.Size())
	if err != nil {
		return err
	}
	return do(c)
}

// byName returns the name by which a cache opens the file: "" if it can open it by its descriptor, so that no name is
// resolved again.
func (f *newFile) byName() string {
	again, err := fd.Reopen(f.File.File)
	if err != nil {
		return f.At()
	}
	_ = again.Close()
	return ""
}

// reopen opens the file again, after a cache that opened it by name may have replaced it.
func (f *newFile) reopen(name string) error {
	if name == "" {
		return nil
	}
	return f.Reopen()
}

// openNew opens the cache in a new file: by its name, if there is one, or by its descriptor.
func openNew(f *os.File, name string, o *xpwc.Options) (*xpwc.Cache, error) {
	if name != "" {
		return xpwc.Open(name, o)
	}
	return xpwc.OpenFile(f, o)
}

// A stage is an output file under construction. It takes its path when it is complete.
type stage struct {
	*newFile
	path   string      // of the output
	before fs.FileInfo // of the file at path when the stage was made, or nil
	mode   fs.FileMode // of the output
	adds   bool        // the output contains that file's entries, so the file must not change
	left   int         // how many damaged entries of that file are not in the output
	// replaces returns an error for a non-empty file that the output must not replace. Nil allows all.
	replaces func(there *os.File) error
}

// newStage makes the stage of an output that keeps the entries of an existing file. An output that is one of the
// inputs, also by a link, is a usage error. A symbolic link is followed if that is safe.
func newStage(ctx context.Context, path string, o placing, inputs ...string) (*stage, error) {
	path, err := trust.Follow(path)
	if err != nil {
		return nil, err
	}
	s := &stage{path: path, adds: true}
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
	return s, s.begin(ctx, o)
}

// newReplacing makes the stage of an output that replaces an existing file, unless replaces returns an error for it.
func newReplacing(ctx context.Context, path string, o placing, replaces func(there *os.File) error,
	inputs ...string) (*stage, error) {
	s, err := newStage(ctx, path, o, inputs...)
	if err == nil {
		if err = s.replace(replaces); err != nil {
			s.discard()
		}
	}
	return s, err
}

// replace makes the output replace an existing file, unless replaces returns an error for it.
func (s *stage) replace(replaces func(there *os.File) error) error {
	s.adds, s.replaces = false, replaces
	return s.checkThere()
}

// readOnly makes the output a file without write permissions.
func (s *stage) readOnly() { s.mode &^= 0o222 }

// begin makes the file, unless others can change the directory that it is to be in.
func (s *stage) begin(ctx context.Context, o placing) (err error) {
	if s.newFile, err = makeFile(ctx, s.path); err != nil {
		return err
	}
	s.mode = s.outputMode(o)
	if o.shared {
		return nil
	}
	dir, err := s.Directory()
	if err == nil {
		err = checkDirectory(filepath.Dir(s.path), dir)
	}
	if err != nil {
		s.discard()
	}
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

// outputMode is the requested mode, or that of the replaced file, or the user's mode for new files: others may read a
// build's output, unlike a cache that a program makes for itself. Others may not write to it: programs would refuse
// the file.
func (s *stage) outputMode(o placing) fs.FileMode {
	switch {
	case o.mode != 0:
		return fs.FileMode(o.mode)
	case s.before != nil:
		return s.before.Mode().Perm() &^ 0o022
	default:
		return s.Usual() &^ 0o022
	}
}

// remake rewrites the output from its present content.
func (s *stage) remake(write func(from *cachefile.File, to *os.File) error) error {
	next, err := makeFile(s.ctx, s.path)
	if err != nil {
		return err
	}
	if err := s.with(func(f *cachefile.File) error { return write(f, next.File.File) }); err != nil {
		next.discard()
		return err
	}
	s.discard()
	s.newFile = next
	return nil
}

// rewrite rewrites the output from its present entries.
func (s *stage) rewrite(what string, o cachefile.WriteOptions) error {
	return s.remake(func(f *cachefile.File, to *os.File) error { return writeCache(s.ctx, f, to, what, nil, o) })
}

// writeCache writes entries of a file into another one, with progress.
func writeCache(ctx context.Context, f *cachefile.File, to *os.File, what string, keep func(cachefile.Entry) bool,
	o cachefile.WriteOptions) error {
	progress := newProgress(ctx, what)
	defer progress.Finish()
	o.Progress = progress.Update
	return f.Write(to, keep, o)
}

// publish puts the output at its path. If the output keeps an existing file's entries and that file has changed since,
// it stays, and the error tells the user.
func (s *stage) publish() error {
	if err := s.Sync(); err != nil { // the slow step runs while an interrupt still can undo it
		return err
	}
	return jobOf(s.ctx).place(func() error {
		if err := s.checkThere(); err != nil {
			return err
		}
		return s.Publish(s.mode)
	})
}

// checkExisting returns an error if the file to be replaced is not the one that was examined. Whoever can rename the
// directory may have exchanged it, so this reads the directory that receives the output.
func (s *stage) checkThere() error {
	var now fs.FileInfo
	there, err := s.There()
	if err == nil {
		defer there.Close()
		now, err = there.Stat()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.adds && changed(s.before, now) {
		return fmt.Errorf("%s was changed by another program meanwhile, and is left as it is; try again", s.path)
	}
	if now == nil || now.Mode().IsRegular() && now.Size() == 0 || s.replaces == nil {
		return nil
	}
	return s.replaces(there)
}

// leftAsItIs is the error for a file of another kind, which is not replaced.
func leftAsItIs(err error) error {
	return fmt.Errorf("%w, and is left as it is: remove it or choose another path", err)
}

// onlyCaches is a stage's replaces for cache files.
func onlyCaches(there *os.File) error {
	info, err := there.Stat()
	if err != nil {
		return err
	}
	_, err = cachefile.NewFile(there, info.Size())
	if err == nil || errors.Is(err, cachefile.ErrDamaged) || errors.Is(err, cachefile.ErrOlder) {
		return nil
	}
	return fmt.Errorf("not written over: %w", err)
}

// keep leaves the existing file in place and sets its mode.
func (s *stage) keep() error {
	if s.before.Mode().Perm() == s.mode {
		return nil
	}
	f, there, err := fd.OpenRegular(s.path)
	if err != nil {
		return err
	}
	if os.SameFile(s.before, there) { // else another program has replaced it
		err = f.Chmod(s.mode)
	}
	return errors.Join(err, f.Close())
}

func changed(before, now fs.FileInfo) bool {
	if before == nil || now == nil {
		return before != nil || now != nil
	}
	return !os.SameFile(before, now) || before.Size() != now.Size() || !before.ModTime().Equal(now.ModTime())
}

// A fileMode is an output's mode: zero for that of the replaced file, or else the user's for new files.
type fileMode fs.FileMode

// placing has the options for putting an output at its path.
type placing struct {
	mode   fileMode
	shared bool // also into a directory that others can change
}

func (o *placing) flags(cmd *cobra.Command) {
	cmd.Flags().Var(&o.mode, "mode",
		"`MODE` of the file, such as 0640 (default that of the file it replaces, or what umask leaves of 0644)")
	sharedFlag(cmd, &o.shared)
}

func sharedFlag(cmd *cobra.Command, shared *bool) {
	cmd.Flags().BoolVar(shared, "allow-shared-directory", false,
		"write also into a directory that others can change, who could put another file there")
}

// errShared: others can change the directory that a file is to be in.
var errShared = errors.New("others could put another file there; correct its owner and mode, choose another " +
	"directory, or give --allow-shared-directory")

// checkDirectory returns an error that matches errShared for a directory that others may rename files in.
func checkDirectory(path string, info fs.FileInfo) error {
	if why := trust.Renamable(info); why != "" {
		return fmt.Errorf("%s: %s: %w", path, why, errShared)
	}
	return nil
}

func (m *fileMode) Type() string { return "mode" }

func (m *fileMode) String() string {
	if *m == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", fs.FileMode(*m))
}

// Set reads an octal mode. One that lets others write is refused: programs would refuse the file.
func (m *fileMode) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil || n&^0o755 != 0 || n&0o400 == 0 {
		return errors.New("not an octal mode such as 0640; its owner must be able to read the file, and others not " +
			"to write to it, else programs do not open it")
	}
	*m = fileMode(n)
	return nil
}
