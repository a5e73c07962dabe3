package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
)

func newCompactCommand() *cobra.Command {
	var o rewriteOptions
	cmd := &cobra.Command{
		Use:   "compact FILE",
		Short: "Rewrite a cache file without its dead bytes",
		Long: `Rewrites a cache file without dead bytes (old indexes, superseded weights) and without payloads whose checksum is wrong. The new
file takes the old one's place by a rename: programs that use the old one go on, and find the new one with their next session.
Caches do this by themselves when a quarter of their bytes is dead.

Waits for another program that is writing to the file, up to --wait. Exits with 1 if it cannot be done; the file is then as it was.`,
		Example: `  xpwc compact model.xpwc
  xpwc compact model.xpwc --wait 5m --json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return rewrite(cmd.Context(), args[0], o, cmd.OutOrStdout(), (*xpwc.Cache).Compact)
		},
	}
	o.flags(cmd)
	return cmd
}

func newPruneCommand() *cobra.Command {
	var o rewriteOptions
	var layouts []string
	var maxSize string
	cmd := &cobra.Command{
		Use:   "prune FILE",
		Short: "Drop entries of other machines' layouts, or down to a size",
		Long: `Rewrites a cache file, as xpwc compact does, with fewer entries: those of the layouts that --keep-layout names, and of these the
ones used last that make a file of at most --max-size. What is dropped is packed again when it is needed.

A layout is named by the beginning of its fingerprint, which xpwc inspect shows, or by the word current, which is this machine's.
It must be in the file. Sizes are numbers with a unit: KB, MB and GB are powers of 1000, KiB, MiB and GiB of 1024.`,
		Example: `  xpwc prune model.xpwc --keep-layout current
  xpwc prune model.xpwc --keep-layout 0f3a --keep-layout current --max-size 1.5GiB
  xpwc prune model.xpwc --max-size 200MiB`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			keep := xpwc.PruneOptions{}
			if len(layouts) == 0 && maxSize == "" {
				return usagef("what is to be kept? Give --keep-layout, --max-size or both")
			}
			if cmd.Flags().Changed("max-size") {
				var err error
				if keep.MaxBytes, err = parseSize("max-size", maxSize); err != nil {
					return err
				}
			}
			err := withFile(args[0], func(f *cachefile.File) error {
				info, err := f.Info()
				for _, name := range layouts {
					if err != nil {
						break
					}
					var l cachefile.Digest
					l, err = selectLayout(args[0], info.Layouts, name)
					keep.KeepLayouts = append(keep.KeepLayouts, l)
				}
				if err == nil && keep.MaxBytes > 0 {
					err = checkRoom(f, keep)
				}
				return err
			})
			if err != nil {
				return err
			}
			return rewrite(cmd.Context(), args[0], o, cmd.OutOrStdout(), func(c *xpwc.Cache) error { return c.Prune(keep) })
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&layouts, "keep-layout", nil,
		"keep only entries of this `LAYOUT`: the beginning of a fingerprint, or current; may be given several times")
	flags.StringVar(&maxSize, "max-size", "",
		"drop the entries used longest ago until the file has at most this `SIZE`, for instance 200MiB")
	layoutFlag(cmd, "keep-layout")
	o.flags(cmd)
	return cmd
}

// checkRoom fails if a limit leaves no entry, as one does whose unit was forgotten.
func checkRoom(f *cachefile.File, keep xpwc.PruneOptions) error {
	least := int64(0)
	for e, err := range f.Entries() {
		kept := err == nil && (len(keep.KeepLayouts) == 0 || slices.Contains(keep.KeepLayouts, e.Layout))
		if kept && (least == 0 || e.Size < least) {
			least = e.Size
		}
	}
	info, err := f.Info()
	if err == nil && least > 0 && keep.MaxBytes < info.HeaderBytes+least {
		return usagef("--max-size: not one entry fits into %s; write a size like 200MiB", console.Size(keep.MaxBytes))
	}
	return nil
}

type rewriteOptions struct {
	wait time.Duration
	json bool
}

func (o *rewriteOptions) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.wait, "wait", 10*time.Second,
		"how long to wait for another program that writes to the file, as a `DURATION` such as 30s")
	jsonFlag(cmd, &o.json)
}

// rewriting is what xpwc compact and xpwc prune tell.
type rewriting struct {
	File          string `json:"file"`
	BytesBefore   int64  `json:"bytes_before"`
	BytesAfter    int64  `json:"bytes_after"`
	EntriesBefore int    `json:"entries_before"`
	EntriesAfter  int    `json:"entries_after"`
	Damaged       int64  `json:"damaged_payloads_dropped"`
}

// rewrite has a cache rewrite its file, as the writer of it.
func rewrite(ctx context.Context, path string, o rewriteOptions, stdout io.Writer, do func(*xpwc.Cache) error) (err error) {
	if err := refuseEmbedded(path); err != nil {
		return err
	}
	r := rewriting{File: path}
	err = withFile(path, func(f *cachefile.File) error {
		info, err := f.Info()
		if err == nil && info.Format != cachefile.Native {
			return fmt.Errorf("%s: %w", path, xpwc.ErrForeign)
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
		return printJSON(stdout, r)
	}
	fmt.Fprintf(stdout, "%s: %s in %s, before %s in %s\n", path, console.Plural(r.EntriesAfter, "entry"), console.Size(r.BytesAfter),
		console.Plural(r.EntriesBefore, "entry"), console.Size(r.BytesBefore))
	if r.Damaged > 0 {
		fmt.Fprintf(stdout, "note: %s had a wrong checksum and %s dropped\n", console.Plural(int(r.Damaged), "payload"), wasWere(r.Damaged))
	}
	return nil
}

func wasWere(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
