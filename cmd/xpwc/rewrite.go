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
	"xpwc/internal/digest"
	"xpwc/internal/format"
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
	// Names of the models that the file has entries of, and of the models whose last entry was dropped.
	Models  []string `json:"models,omitempty"`
	Dropped []string `json:"dropped_models,omitempty"`
}

// rewrite opens the file as a cache, its only writer, and lets do rewrite it.
func rewrite(ctx context.Context, path string, o rewriteOptions, do func(*xpwc.Cache) error) error {
	loc, err := locate(path)
	if err == nil && loc.in != nil {
		err = fmt.Errorf("%s: packed weights in a safetensors file are not rewritten; "+
			"xpwc convert --to native takes them out, xpwc pack --embed-beside makes a new file", path)
	}
	if err != nil {
		return err
	}
	r := &rewriting{File: path}
	err = loc.view(func(f *cachefile.File) error {
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
	stats := cache.Stats()
	r.BytesAfter, r.EntriesAfter = stats.FileBytes, stats.Entries
	err = loc.view(func(f *cachefile.File) error {
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
		lost := strings.Join(r.Dropped, ", ")
		if len(r.Models) > 0 {
			lost += "; it still has those of " + strings.Join(r.Models, ", ")
		}
		fmt.Fprintln(w, fold("no more entries of "+lost, textWidth(w)))
	}
	if r.Damaged > 0 {
		fmt.Fprintf(w, "note: %s had a wrong checksum and %s dropped\n", console.Plural(int(r.Damaged), "payload"),
			oneOrMany(int(r.Damaged), "was", "were"))
	}
}

// oneOrMany returns the verb's form for a count.
func oneOrMany(n int, singular, many string) string {
	if n == 1 {
		return singular
	}
	return many
}

func newCompactCommand() *cobra.Command {
	var o rewriteOptions
	cmd := &cobra.Command{
		Use:   "compact FILE",
		Short: "Rewrite a cache file without its dead bytes",
		Long: `Rewrites a cache file without dead bytes (old indexes, replaced weights) and without
payloads whose checksum is wrong. Programs that use the old file are not disturbed, and
find the new one with their next session. Caches do this by themselves when a quarter of
their bytes is dead.

If the file cannot be rewritten, it is as it was. An interrupt waits until it is
rewritten.`,
		Example: `  xpwc compact model.xpwc
  xpwc compact model.xpwc --wait 5m --json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return rewrite(cmd.Context(), args[0], o, (*xpwc.Cache).Compact)
		},
	}
	o.flags(cmd)
	return cmd
}

func newPruneCommand() *cobra.Command {
	var o rewriteOptions
	var layouts, preserved []string
	var maxSize string
	cmd := &cobra.Command{
		Use:   "prune FILE",
		Short: "Drop entries of other layouts or models, or used longest ago",
		Long: `Rewrites a cache file, as xpwc compact does, with fewer entries. With
--keep-layout only entries of these layouts are kept. With --keep-model only entries are
kept that were packed from these models, or of which that is not known. A model is a name
as xpwc inspect shows it, or the path that programs open it at. With --max-size the
entries used longest ago are dropped until the file has at most this size. Dropped weights
are packed again when they are needed.

A layout is named by the beginning of its fingerprint, or by the word current, which is
this machine's. Sizes are numbers with a unit: MB and GB are powers of 1000, MiB and GiB
of 1024.`,
		Example: `  xpwc prune model.xpwc --keep-layout current
  xpwc prune model.xpwc --keep-layout 0f3a --keep-layout current --max-size 2GiB
  xpwc prune models.xpwc --keep-model pose.tflite --keep-model hand.tflite
  xpwc prune model.xpwc --max-size 200MiB`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			keep := xpwc.PruneOptions{}
			if len(layouts) == 0 && len(preserved) == 0 && maxSize == "" {
				return usagef("give --keep-layout, --keep-model or --max-size")
			}
			if cmd.Flags().Changed("max-size") {
				var err error
				if keep.MaxBytes, err = parseSize("max-size", maxSize); err != nil {
					return err
				}
				if keep.MaxBytes < 16<<10 { // as when the unit was forgotten
					return usagef("--max-size: nothing fits into %s; write a size like 200MiB",
						console.Size(keep.MaxBytes))
				}
			}
			err := withFile(args[0], func(f *cachefile.File) error {
				info, err := f.Info()
				if err != nil {
					return err
				}
				for _, name := range layouts {
					l, err := selectLayout(args[0], info.Layouts, name)
					if err != nil {
						return err
					}
					keep.KeepLayouts = append(keep.KeepLayouts, xpwc.Digest(l))
				}
				for _, model := range preserved {
					sources, err := keptSources(args[0], info.Models, model)
					if err != nil {
						return err
					}
					keep.KeepSources = append(keep.KeepSources, sources...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return rewrite(cmd.Context(), args[0], o, func(c *xpwc.Cache) error { return c.Prune(keep) })
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&layouts, "keep-layout", nil,
		"keep entries of this `LAYOUT`: the beginning of a fingerprint, or current; may be repeated")
	flags.StringArrayVar(&preserved, "keep-model", nil,
		"keep entries that were packed from this `MODEL`: a name or a path; may be repeated")
	flags.StringVar(&maxSize, "max-size", "",
		"drop the entries used longest ago until the file has at most this `SIZE`, for instance 200MiB")
	o.flags(cmd)
	return cmd
}

// keptSources returns a cache's names for a model to keep: its path and, if it is given as a name, that name, whatever
// lies in this directory. The file must have entries of it.
func keptSources(file string, models []cachefile.Model, model string) (sources []string, err error) {
	path, err := filepath.Abs(model)
	if err != nil {
		return nil, err
	}
	name := format.CleanName(filepath.Base(path))
	if sources = []string{path}; filepath.Base(model) == model {
		sources = append(sources, model)
	}
	if slices.ContainsFunc(models, func(m cachefile.Model) bool {
		return m.Source == digest.OfStrings(path) || len(sources) > 1 && m.Name == name ||
			m.Source == cachefile.Digest{} && (m.Name == "" || m.Name == name)
	}) {
		return sources, nil
	}
	list := ""
	if names := modelNames(models); len(names) > 0 {
		list = "; it was packed from " + strings.Join(names, ", ")
	}
	return nil, usagef("--keep-model %s: %s has nothing that was packed from it%s", model, file, list)
}
