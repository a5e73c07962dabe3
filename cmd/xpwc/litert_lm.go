package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/internal/output"
	"xpwc/models/bundle"
	"xpwc/models/litert"
)

// forLiteRTLM is the value of --for: LiteRT-LM's engine, which maps a file of LiteRT's for each model of a bundle,
// under a name that it computes from the bundle's.
const forLiteRTLM = "litert-lm"

// An engineModel is a model of a bundle with the name of its cache.
type engineModel struct {
	modelfile.File
	cache litert.EngineCache
}

// engineModels returns the models of a bundle for which the engine has a cache, and the names of the others.
func engineModels(file modelfile.File) (models []engineModel, others []string, err error) {
	info, err := os.Stat(file.Path)
	if err != nil {
		return nil, nil, err
	}
	b, err := bundle.Open(file.Path)
	if errors.Is(err, bundle.ErrNotBundle) {
		return nil, nil, usagef("for LiteRT-LM a model is a bundle (.litertlm or .task), and %s is not", file)
	}
	if err != nil {
		return nil, nil, err
	}
	files, err := file.Models()
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		s, err := b.Section(f.Section)
		if err != nil {
			return nil, nil, err
		}
		if cache, ok := litert.EngineCacheOf(info, s.Role); ok {
			models = append(models, engineModel{f, cache})
		} else {
			others = append(others, s.Name)
		}
	}
	if len(models) == 0 {
		return nil, nil, fmt.Errorf("%s: LiteRT-LM keeps no packed weights of %s", file, strings.Join(others, ", "))
	}
	return models, others, nil
}

// packLiteRTLM writes the files that LiteRT-LM's engine writes at its first start, under the names that it looks for.
func packLiteRTLM(ctx context.Context, model modelfile.File, o packOptions) error {
	models, others, err := engineModels(model)
	if err != nil {
		return err
	}
	if o.embed || o.byContent || len(o.levels) > 1 {
		return usagef("--for %s: a file is for one CPU, and its name is the engine's: "+
			"--embed-beside, --name-by-content and more than one --cpu are for other files", o.runtime)
	}
	packer, err := newLiteRTPacker(o.library, o.levels[0])
	if err != nil {
		return err
	}
	r := &packReport{Model: model.String(), Output: o.output, Levels: []packedLevel{}, WithoutCache: others}
	for _, m := range models {
		origin, err := newPackedFor(m.File, o.levels[0])
		if err != nil {
			return err
		}
		names := m.cache.Names()
		path := filepath.Join(o.output, names[0])
		f, err := packer.write(ctx, path, origin, o.placing)
		if err != nil {
			return fmt.Errorf("%w\nnothing was written to %s", err, path)
		}
		if f == nil {
			r.WithoutCache = append(r.WithoutCache, m.Section)
			continue
		}
		f.Engine = packer.release.Packer
		if f.Aliases, err = aliasEngineCache(path, names[1:]); err != nil {
			return err
		}
		r.addLiteRT(f)
		r.PackedFor = origin
	}
	if len(r.LiteRT) == 0 {
		r.Nothing = "it has no weights that LiteRT's XNNPACK packs"
	}
	setResult(ctx, r)
	return nil
}

// placement is the result of xpwc place.
type placement struct {
	Model string       `json:"model"`
	Files []placedFile `json:"files"`
}

type placedFile struct {
	File    string   `json:"file"`
	Output  string   `json:"output"`
	Aliases []string `json:"aliases,omitempty"` // paths at which the engine may look instead
}

func newPlaceCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "place MODEL FILE...",
		Short: "Name packed files so that LiteRT-LM finds them",
		Long: `Moves files that xpwc pack --for litert-lm wrote for the bundle MODEL beside it, or to the
directory of -o, under the names that LiteRT-LM's engine looks for now, and makes them
read-only. The names have MODEL's size and the time of its last change, which a copy, a
package or an image changes. If that time is nearly a whole second, the engine may look for
either of two names, and the file gets both. A FILE of another name is for the language
model itself.

It does not compare FILE with MODEL, except for the size in its name: xpwc verify FILE
--model MODEL does.`,
		Example: `  xpwc place model.litertlm model.litertlm_*.xnnpack_cache
  xpwc place /data/model.litertlm received.xnnpack_cache -o /data/cache`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				dir = filepath.Dir(args[0])
			}
			return place(cmd.Context(), modelfile.Parse(args[0]), args[1:], dir)
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "`DIR` that the engine is given as cache_dir (default MODEL's)")
	jsonFlag(cmd)
	return cmd
}

func place(ctx context.Context, model modelfile.File, paths []string, dir string) error {
	models, _, err := engineModels(model)
	if err != nil {
		return err
	}
	r := &placement{Model: model.String(), Files: []placedFile{}}
	for _, path := range paths {
		if _, err := litert.Open(path); err != nil {
			return err
		}
		names, err := engineNamesFor(models, path)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, placedFile{path, filepath.Join(dir, names[0]), names[1:]})
	}
	for i := range r.Files {
		f := &r.Files[i]
		if err = f.move(); err == nil {
			f.Aliases, err = aliasEngineCache(f.Output, f.Aliases)
		}
		if err != nil {
			return err
		}
	}
	setResult(ctx, r)
	return nil
}

// engineNamesFor returns the names that the engine may now look for in place of the cache file at a path.
func engineNamesFor(models []engineModel, path string) ([]string, error) {
	recorded, _ := litert.ParseEngineCache(path)
	for _, m := range models {
		if m.cache.Part != recorded.Part {
			continue
		}
		if recorded.Bundle != "" && recorded.Size != m.cache.Size {
			return nil, fmt.Errorf("%s is for a model of %d bytes, and %s has %d: pack it", path, recorded.Size, m.Path,
				m.cache.Size)
		}
		return m.cache.Names(), nil
	}
	return nil, fmt.Errorf("%s is for the part %q, which %s does not have", path, recorded.Part, models[0].Path)
}

// move takes the file's write permissions, and renames it.
func (f *placedFile) move() error {
	info, err := os.Stat(f.File)
	if err != nil {
		return err
	}
	if err := os.Chmod(f.File, info.Mode().Perm()&^0o222); err != nil {
		return err
	}
	if placed, err := os.Stat(f.Output); err == nil && os.SameFile(info, placed) {
		if filepath.Clean(f.File) == filepath.Clean(f.Output) {
			return nil
		}
		return os.Remove(f.File) // rename leaves both names of one file
	}
	if err = os.Rename(f.File, f.Output); errors.Is(err, syscall.EXDEV) {
		return fmt.Errorf("%w; copy it to %s first", err, filepath.Dir(f.Output))
	}
	return err
}

// aliasEngineCache gives the cache file at a path more names in its directory, for which the engine may look instead.
// It returns their paths. They are links, or copies where the file system has no links.
func aliasEngineCache(path string, names []string) (paths []string, err error) {
	for _, name := range names {
		alias := filepath.Join(filepath.Dir(path), name)
		if err := linkCache(path, alias); err != nil {
			return nil, fmt.Errorf("%s, for which LiteRT-LM may look: %w", alias, err)
		}
		paths = append(paths, alias)
	}
	return paths, nil
}

// linkCache makes alias another name of the cache file at a path. It replaces only files of LiteRT.
func linkCache(path, alias string) error {
	file, info, err := fd.OpenRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	f, err := output.New(alias)
	if err != nil {
		return err
	}
	defer f.Discard()
	switch existing, err := f.Existing(); {
	case err == nil:
		defer existing.Close()
		if present, err := existing.Stat(); err == nil && os.SameFile(info, present) {
			return nil
		}
		if err := onlyLiteRT(existing); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := f.PublishLink(file); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := io.Copy(f, file); err != nil {
		return err
	}
	return f.Publish(info.Mode().Perm())
}

func (r *placement) print(w io.Writer) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: now %s\n", console.Printable(f.File), console.Printable(f.Output))
		printAliases(w, f.Aliases)
	}
}

func printAliases(w io.Writer, aliases []string) {
	for _, alias := range aliases {
		fmt.Fprintf(w, "%s: the same file: the model's time is nearly a whole second, and LiteRT-LM may take either\n",
			console.Printable(alias))
	}
}

// engineModelOf returns the model in a bundle whose cache of LiteRT-LM's engine a file is, by its name, or nil. Without
// a path of the bundle it is the one in the file's directory.
func engineModelOf(path, bundle string) *engineModel {
	c, ok := litert.ParseEngineCache(path)
	if !ok {
		return nil
	}
	if bundle == "" {
		bundle = filepath.Join(filepath.Dir(path), c.Bundle)
	}
	models, _, err := engineModels(modelfile.File{Path: bundle})
	i := slices.IndexFunc(models, func(m engineModel) bool { return m.cache.Part == c.Part })
	if err != nil || i < 0 {
		return nil
	}
	return &models[i]
}
