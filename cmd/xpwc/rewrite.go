package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/trust"
	"xpwc/internal/workdir"
)

type rewriteOptions struct {
	wait time.Duration
	json bool
}

func (o *rewriteOptions) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.wait, "wait", 10*time.Second,
		"how long to wait for another program that writes to the file, as a `DURATION` such as 30s")
	jsonFlag(cmd, &o.json)
}

// rewriting is the result of xpwc compact and xpwc prune.
type rewriting struct {
	File          string `json:"file"`
	BytesBefore   int64  `json:"file_bytes_before"`
	BytesAfter    int64  `json:"file_bytes_after"`
	EntriesBefore int    `json:"entry_count_before"`
	EntriesAfter  int    `json:"entry_count_after"`
	Damaged       int64  `json:"damaged_entry_count"`
}

// rewrite opens the file as a cache, its only writer, and lets do rewrite it.
func rewrite(ctx context.Context, path string, o rewriteOptions, stdout io.Writer,
	do func(*xpwc.Cache) error) (err error) {
	if err := refuseEmbedded(path); err != nil {
		return err
	}
	r := rewriting{File: path}
	err = withFile(path, func(f *cachefile.File) error {
		info, err := f.Info()
		if err == nil && info.Format != cachefile.Native {
			return fmt.Errorf("%s: %w; xpwc convert makes a native file of it, or another file for ExecuTorch", path,
				xpwc.ErrForeign)
		}
		r.BytesBefore, r.EntriesBefore = info.FileBytes, info.Entries
		return err
	})
	if err != nil {
		return err
	}
	file, err := newRewritten(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = file.named(errors.Join(err, file.remove())) }()
	wait := o.wait
	if wait <= 0 {
		wait = -1 // not at all
	}
	cache, err := xpwc.Open(file.name, &xpwc.Options{Strict: true, WriterWait: wait})
	if err != nil {
		return err
	}
	err = do(cache)
	r.Damaged = cache.Stats().DamagedPayloads
	if err := errors.Join(err, cache.Close()); err != nil {
		return err
	}
	if err := file.publish(o.wait); err != nil {
		return err
	}
	after := cache.Stats()
	r.BytesAfter, r.EntriesAfter = after.FileBytes, after.Entries
	if o.json {
		setResult(ctx, r)
		return nil
	}
	fmt.Fprintf(stdout, "%s: %s in %s, before %s in %s\n", path,
		console.Plural(r.EntriesAfter, "entry"), console.Size(r.BytesAfter),
		console.Plural(r.EntriesBefore, "entry"), console.Size(r.BytesBefore))
	if r.Damaged > 0 {
		fmt.Fprintf(stdout, "note: %s had a wrong checksum and %s dropped\n", console.Plural(int(r.Damaged), "payload"),
			wasWere(r.Damaged))
	}
	return nil
}

func wasWere(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// A rewritten is a cache file that a cache rewrites. The cache opens it by a second name, in a stage. So it locks the
// file itself, but new files are made in the stage, and an interrupt leaves the file as it was and nothing else.
type rewritten struct {
	*stage // nil where there are no second names: then the cache works in place, and an interrupt waits for it
	path   string
	name   string
	was    fs.FileInfo
}

func newRewritten(ctx context.Context, path string) (*rewritten, error) {
	path, err := trust.Follow(path)
	if err != nil {
		return nil, err
	}
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
		jobOf(ctx).waitFor("")
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

// publish moves the new file from the second name to the path, if the cache has made one. It holds the lock of the old
// file meanwhile, so that no program commits to it. If a program has committed to it since the cache rewrote it, it is
// left as it is.
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
		if there, err := os.Lstat(r.path); err != nil || !os.SameFile(at, there) || !os.SameFile(at, r.was) ||
			after != before+1 {
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

// named makes errors name the file by its own name.
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
