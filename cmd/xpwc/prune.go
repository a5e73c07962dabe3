package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
)

func newPruneCommand() *cobra.Command {
	var o rewriteOptions
	var layouts, kept []string
	var maxSize string
	cmd := &cobra.Command{
		Use:   "prune FILE",
		Short: "Drop entries of other machines' layouts, of other models, or used longest ago",
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
			if len(layouts) == 0 && len(kept) == 0 && maxSize == "" {
				return usagef("give --keep-layout, --keep-model or --max-size")
			}
			if cmd.Flags().Changed("max-size") {
				var err error
				if keep.MaxBytes, err = parseSize("max-size", maxSize); err != nil {
					return err
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
				for _, model := range kept {
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
	flags.StringArrayVar(&kept, "keep-model", nil,
		"keep entries that were packed from this `MODEL`: a name or a path; may be repeated")
	flags.StringVar(&maxSize, "max-size", "",
		"drop the entries used longest ago until the file has at most this `SIZE`, for instance 200MiB")
	o.flags(cmd)
	return cmd
}

// keptSources returns what the cache calls a model that is to be kept: a path and, if that is how it is given, a name,
// whatever lies in this directory. The file must have something that may be of it.
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
	has := ""
	if names := modelNames(models); len(names) > 0 {
		has = "; it was packed from " + strings.Join(names, ", ")
	}
	return nil, usagef("--keep-model %s: %s has nothing that was packed from it%s", model, file, has)
}
