package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/trust"
)

type rewriteOptions struct {
	wait   time.Duration
	shared bool
}

func (o *rewriteOptions) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.wait, "wait", 10*time.Second,
		"how long to wait for another program that writes to the file, as a `DURATION` such as 30s")
	jsonFlag(cmd)
	sharedFlag(cmd, &o.shared)
}

// checkDirectory looks at the directory that the file is in, and not at that of a link to it.
func (o *rewriteOptions) checkDirectory(path string) error {
	path, err := trust.Follow(path)
	if err != nil || o.shared {
		return err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	return checkDirectory(filepath.Dir(path), dir)
}

// rewriting is the result of xpwc compact and xpwc prune.
type rewriting struct {
	File          string `json:"file"`
	BytesBefore   int64  `json:"file_bytes_before"`
	BytesAfter    int64  `json:"file_bytes_after"`
	EntriesBefore int    `json:"entry_count_before"`
	EntriesAfter  int    `json:"entry_count_after"`
	Damaged       int64  `json:"damaged_entry_count"`
	// Names of what it was packed from: of the entries that it has, and of those that it has no more.
	Models  []string `json:"models,omitempty"`
	Dropped []string `json:"dropped_models,omitempty"`
}

// rewrite opens the file as a cache, its only writer, and lets do rewrite it.
func rewrite(ctx context.Context, path string, o rewriteOptions, do func(*xpwc.Cache) error) error {
	at, err := locate(path)
	if err == nil && at.in != nil {
		err = fmt.Errorf("%s: packed weights in a safetensors file are not rewritten; "+
			"xpwc convert --to native takes them out, xpwc pack --embed-beside makes a new file", path)
	}
	if err != nil {
		return err
	}
	r := &rewriting{File: path}
	err = at.with(func(f *cachefile.File) error {
		info, err := f.Info()
		if err == nil && info.Format != cachefile.Native {
			return fmt.Errorf("%s: %w, and xpwc convert another file for ExecuTorch", path, xpwc.ErrForeign)
		}
		r.BytesBefore, r.EntriesBefore, r.Dropped = info.FileBytes, info.Entries, modelNames(info.Models)
		return err
	})
	if err != nil {
		return err
	}
	if err := o.checkDirectory(path); err != nil {
		return err
	}
	jobOf(ctx).waitFor("") // the file is as it was, or is whole
	wait := o.wait
	if wait <= 0 {
		wait = -1 // not at all
	}
	cache, err := xpwc.Open(path, &xpwc.Options{Strict: true, WriterWait: wait})
	if err != nil {
		return err
	}
	err = do(cache)
	r.Damaged = cache.Stats().DamagedPayloads
	if err := errors.Join(err, cache.Close()); err != nil {
		return err
	}
	after := cache.Stats()
	r.BytesAfter, r.EntriesAfter = after.FileBytes, after.Entries
	err = at.with(func(f *cachefile.File) error {
		info, err := f.Info()
		r.Models = modelNames(info.Models)
		return err
	})
	if err != nil {
		return err
	}
	r.Dropped = slices.DeleteFunc(r.Dropped, func(name string) bool { return slices.Contains(r.Models, name) })
	setResult(ctx, r)
	return nil
}

func (r *rewriting) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s in %s, before %s in %s\n", r.File,
		console.Plural(r.EntriesAfter, "entry"), console.Size(r.BytesAfter),
		console.Plural(r.EntriesBefore, "entry"), console.Size(r.BytesBefore))
	if len(r.Dropped) > 0 {
		said := strings.Join(r.Dropped, ", ")
		if len(r.Models) > 0 {
			said += "; it still has those of " + strings.Join(r.Models, ", ")
		}
		fmt.Fprintln(w, fold("no more entries of "+said, textWidth(w)))
	}
	if r.Damaged > 0 {
		fmt.Fprintf(w, "note: %s had a wrong checksum and %s dropped\n", console.Plural(int(r.Damaged), "payload"),
			oneOrMany(int(r.Damaged), "was", "were"))
	}
}

// oneOrMany returns the verb for so many things.
func oneOrMany(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
