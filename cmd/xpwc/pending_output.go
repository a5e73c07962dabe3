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

// view calls do with the file, opened as a cache file.
func (f *newFile) view(do func(*cachefile.File) error) error { return viewCache(f.File.File, do) }

// viewCache calls do with an open cache file.
func viewCache(file *os.File, do func(*cachefile.File) error) error {
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
	reopened, err := fd.Reopen(f.File.File)
	if err != nil {
		return f.Path()
	}
	_ = reopened.Close()
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

// A pendingOutput is one under construction. It takes its path when it is complete.
type pendingOutput struct {
	*newFile
	path     string      // of the output
	original fs.FileInfo // of the file at path when the output was made, or nil
	mode     fs.FileMode // of the output
	adds     bool        // the output contains that file's entries, so the file must not change
	damaged  int         // how many damaged entries of that file are not in the output
	// replaces returns an error for a non-empty file that the output must not replace. Nil allows all.
	replaces func(existing *os.File) error
}

// newPendingOutput makes an output that keeps the entries of an existing file. An output that is one of the
// inputs, also by a link, is a usage error. A symbolic link is followed if that is safe.
func newPendingOutput(ctx context.Context, path string, o placing, inputs ...string) (*pendingOutput, error) {
	path, err := trust.Follow(path)
	if err != nil {
		return nil, err
	}
	s := &pendingOutput{path: path, adds: true}
	if s.original, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		s.original, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.original != nil {
		if err := s.checkOutput(inputs); err != nil {
			return nil, err
		}
	}
	return s, s.begin(ctx, o)
}

// newReplacing makes an output that replaces an existing file, unless replaces returns an error for it.
func newReplacing(ctx context.Context, path string, o placing, replaces func(existing *os.File) error,
	inputs ...string) (*pendingOutput, error) {
	s, err := newPendingOutput(ctx, path, o, inputs...)
	if err == nil {
		if err = s.replace(replaces); err != nil {
			s.discard()
		}
	}
	return s, err
}

// replace makes the output replace an existing file, unless replaces returns an error for it.
func (s *pendingOutput) replace(replaces func(existing *os.File) error) error {
	s.adds, s.replaces = false, replaces
	return s.checkExisting()
}

// readOnly makes the output a file without write permissions.
func (s *pendingOutput) readOnly() { s.mode &^= 0o222 }

// begin makes the file, unless others can change the directory that it is to be in.
func (s *pendingOutput) begin(ctx context.Context, o placing) (err error) {
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

func (s *pendingOutput) checkOutput(inputs []string) error {
	output, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, input := range inputs {
		if info, err := os.Stat(input); err == nil && output != nil && os.SameFile(info, output) {
			return usagef("-o %s is the same file as the input %s; choose another path", s.path, input)
		}
	}
	if !s.original.Mode().IsRegular() {
		return usagef("-o %s exists and is not a regular file; choose another path, or remove it", s.path)
	}
	return nil
}

// outputMode is the requested mode, or that of the replaced file, or the user's mode for new files: others may read a
// build's output, unlike a cache that a program makes for itself. Others may not write to it: programs would refuse
// the file.
func (s *pendingOutput) outputMode(o placing) fs.FileMode {
	switch {
	case o.mode != 0:
		return fs.FileMode(o.mode)
	case s.original != nil:
		return s.original.Mode().Perm() &^ 0o022
	default:
		return s.Usual() &^ 0o022
	}
}

// remake rewrites the output from its present content.
func (s *pendingOutput) remake(write func(src *cachefile.File, dst *os.File) error) error {
	next, err := makeFile(s.ctx, s.path)
	if err != nil {
		return err
	}
	if err := s.view(func(f *cachefile.File) error { return write(f, next.File.File) }); err != nil {
		next.discard()
		return err
	}
	s.discard()
	s.newFile = next
	return nil
}

// rewrite rewrites the output from its present entries.
func (s *pendingOutput) rewrite(task string, o cachefile.WriteOptions) error {
	return s.remake(func(f *cachefile.File, dst *os.File) error { return writeCache(s.ctx, f, dst, task, nil, o) })
}

// writeCache writes entries of a file into another one, with progress.
func writeCache(ctx context.Context, f *cachefile.File, dst *os.File, task string, keep func(cachefile.Entry) bool,
	o cachefile.WriteOptions) error {
	progress := newProgress(ctx, task)
	defer progress.Finish()
	o.Progress = progress.Update
	return f.Write(dst, keep, o)
}

// publish puts the output at its path. If the output keeps an existing file's entries and that file has changed since,
// it stays, and the error tells the user.
func (s *pendingOutput) publish() error {
	if err := s.Sync(); err != nil { // the slow step runs while an interrupt still can undo it
		return err
	}
	return jobOf(s.ctx).place(func() error {
		if err := s.checkExisting(); err != nil {
			return err
		}
		return s.Publish(s.mode)
	})
}

// checkExisting returns an error if the file to be replaced is not the one that was examined. Whoever can rename the
// directory may have exchanged it, so this reads the directory that receives the output.
func (s *pendingOutput) checkExisting() error {
	var current fs.FileInfo
	existing, err := s.Existing()
	if err == nil {
		defer existing.Close()
		current, err = existing.Stat()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.adds && changed(s.original, current) {
		return fmt.Errorf("%s was changed by another program meanwhile, and is left as it is; try again", s.path)
	}
	if current == nil || current.Mode().IsRegular() && current.Size() == 0 || s.replaces == nil {
		return nil
	}
	return s.replaces(existing)
}

// leftAsItIs is the error for a file of another kind, which is not replaced.
func leftAsItIs(err error) error {
	return fmt.Errorf("%w, and is left as it is: remove it or choose another path", err)
}

// onlyCaches is replaces for cache files.
func onlyCaches(existing *os.File) error {
	err := viewCache(existing, func(*cachefile.File) error { return nil })
	if err == nil || errors.Is(err, cachefile.ErrDamaged) || errors.Is(err, cachefile.ErrOlder) {
		return nil
	}
	return fmt.Errorf("not written over: %w", err)
}

// keep leaves the existing file in place and sets its mode.
func (s *pendingOutput) keep() error {
	if s.original.Mode().Perm() == s.mode {
		return nil
	}
	f, info, err := fd.OpenRegular(s.path)
	if err != nil {
		return err
	}
	if os.SameFile(s.original, info) { // else another program has replaced it
		err = f.Chmod(s.mode)
	}
	return errors.Join(err, f.Close())
}

func changed(old, current fs.FileInfo) bool {
	if old == nil || current == nil {
		return old != nil || current != nil
	}
	return !os.SameFile(old, current) || old.Size() != current.Size() || !old.ModTime().Equal(current.ModTime())
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

// checkDirectory returns an error that matches errShared for a directory that others may rename files in.
func checkDirectory(path string, info fs.FileInfo) error {
	if reason := trust.Renamable(info); reason != "" {
		return fmt.Errorf("%s: %s: %w", path, reason, errShared)
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

// temporaryFile is the subject of errors about a file without a name that is not the user's output.
func temporaryFile() string { return fmt.Sprintf("a temporary file in %s (TMPDIR)", os.TempDir()) }
