package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
)

func newPruneCommand() *cobra.Command {
	var o rewriteOptions
	var layouts, kept []string
	var maxSize string
	cmd := &cobra.Command{
		Use:   "prune FILE",
		Short: "Drop entries of other machines' layouts, of other models, or used longest ago",
		Long: `Rewrites a cache file, as xpwc compact does, with fewer entries. With --keep-layout only
entries of these layouts are kept. With --keep-model only entries are kept that were
packed from these files, by the paths that programs open them at, and those of which it is
not known, as what was pulled and not used yet. With --max-size the entries used longest ago are
dropped until the file has at most this size. Dropped weights are packed again when they
are needed.

A layout is named by the beginning of its fingerprint, which xpwc inspect shows, or by the
word current, which is this machine's layout. The file must have entries of it. Sizes are
numbers with a unit: KB, MB and GB are powers of 1000; KiB, MiB and GiB of 1024.`,
		Example: `  xpwc prune model.xpwc --keep-layout current
  xpwc prune model.xpwc --keep-layout 0f3a --keep-layout current --max-size 2GiB
  xpwc prune models.xpwc --keep-model pose.tflite --keep-model hand.tflite
  xpwc prune model.xpwc --max-size 200MiB`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			keep := xpwc.PruneOptions{}
			if len(layouts) == 0 && len(kept) == 0 && maxSize == "" {
				return usagef("give --keep-layout, --keep-model or --max-size")
			}
			for _, model := range kept {
				path, err := filepath.Abs(model)
				if err == nil {
					_, err = os.Stat(path)
				}
				if err != nil {
					return err
				}
				keep.KeepSources = append(keep.KeepSources, path)
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
					keep.KeepLayouts = append(keep.KeepLayouts, xpwc.Digest(l))
				}
				if err == nil && keep.MaxBytes > 0 {
					err = checkRoom(f, keep)
				}
				return err
			})
			if err != nil {
				return err
			}
			return rewrite(cmd.Context(), args[0], o, cmd.OutOrStdout(),
				func(c *xpwc.Cache) error { return c.Prune(keep) })
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&layouts, "keep-layout", nil,
		"keep entries of this `LAYOUT`: the beginning of a fingerprint, or current; may be repeated")
	flags.StringArrayVar(&kept, "keep-model", nil,
		"keep entries that were packed from the file `MODEL`; may be repeated")
	flags.StringVar(&maxSize, "max-size", "",
		"drop the entries used longest ago until the file has at most this `SIZE`, for instance 200MiB")
	layoutFlag(cmd, "keep-layout")
	o.flags(cmd)
	return cmd
}

// checkRoom fails if not one entry fits into the limit, as when its unit was forgotten.
func checkRoom(f *cachefile.File, keep xpwc.PruneOptions) error {
	least := int64(0)
	for e, err := range f.Entries() {
		kept := err == nil && (len(keep.KeepLayouts) == 0 || slices.Contains(keep.KeepLayouts, xpwc.Digest(e.Layout)))
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
