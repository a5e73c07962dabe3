package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"xpwc/internal/modelfile"
	"xpwc/models/bundle"
	"xpwc/models/litert"
	"xpwc/models/tflite"
)

// stripBundle writes a bundle with the skeletons of its models, for LiteRT-LM's engine and the files that were packed
// for it. Models without a file stay whole.
func stripBundle(ctx context.Context, model modelfile.File, o stripOptions) error {
	models, others, err := engineModels(model)
	if err != nil {
		return err
	}
	files, err := packedByPart(models, o.packed)
	if err != nil {
		return err
	}
	r := &stripped{CPU: o.cpu}
	for _, m := range models {
		if files[m.cache.Part] == "" {
			r.Sections = append(r.Sections, keptSection{m.Section, "no --packed file is for it", m.Size})
		}
	}
	b, err := bundle.Open(model.Path)
	if err != nil {
		return err
	}
	for _, s := range b.Models() {
		if slices.Contains(others, s.Name) {
			r.Sections = append(r.Sections, keptSection{s.Name, "LiteRT-LM keeps no packed weights of it", s.Size})
		}
	}
	packer, err := o.litertPacker()
	if err != nil {
		return err
	}
	r.LiteRT = packer.release.Version
	contents, err := r.skeletons(ctx, packer, models, files, o)
	defer func() {
		for _, f := range contents {
			f.discard()
		}
	}()
	if err != nil {
		return err
	}
	origin, err := newPackedFor(model, o.cpu)
	if err != nil {
		return err
	}
	return r.write(ctx, origin, o, func(out *pendingOutput) error { return r.writeBundle(out, model.Path, contents) })
}

// packedByPart returns the path of the packed file for each part of a bundle. A file whose name is not the engine's is
// for the language model itself. Two names of one file are one.
func packedByPart(models []engineModel, paths []string) (files map[string]string, err error) {
	files = map[string]string{}
	for _, path := range paths {
		c, _ := litert.ParseEngineCache(path)
		if !slices.ContainsFunc(models, func(m engineModel) bool { return m.cache.Part == c.Part }) {
			return nil, fmt.Errorf("%s is for the part %q, which %s does not have", path, c.Part, models[0].Path)
		}
		first := files[c.Part]
		if first == "" {
			files[c.Part] = path
		} else if linked, err := sameFile(first, path); err != nil {
			return nil, err
		} else if !linked {
			return nil, usagef("%s and %s are for one model", first, path)
		}
	}
	return files, nil
}

// skeletons writes the skeleton of each model that has a packed file, by section. The caller discards the files, also
// with an error. A model that cannot be stripped is one of the sections that stay, unless it is the only one.
func (r *stripped) skeletons(ctx context.Context, packer *litertPacker, models []engineModel,
	files map[string]string, o stripOptions) (contents map[string]*newFile, err error) {
	contents = map[string]*newFile{}
	var refused error
	for _, m := range models {
		packed := files[m.cache.Part]
		if packed == "" {
			continue
		}
		f, err := makeFile(ctx, filepath.Join(os.TempDir(), "skeleton.tflite"))
		if err != nil {
			return contents, err
		}
		err = r.skeleton(ctx, packer, f, m, packed, o)
		if err != nil {
			f.discard()
		}
		switch {
		case errors.Is(err, tflite.ErrNoSkeleton):
			refused = cmp.Or(refused, err)
			r.Sections = append(r.Sections, keptSection{m.Section, err.Error(), m.Size})
		case err != nil:
			return contents, err
		default:
			contents[m.Section] = f
		}
	}
	if len(contents) == 0 {
		return contents, refused
	}
	return contents, nil
}

// skeleton writes the skeleton of a model into an empty file.
func (r *stripped) skeleton(ctx context.Context, packer *litertPacker, dst *newFile, m engineModel, packed string,
	o stripOptions) (err error) {
	if err := checkLiteRTModel(m.File); err != nil {
		return err
	}
	s, err := packer.stripping(ctx, m.File, packed, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.skeleton.Close()) }()
	if err := s.write(ctx, dst, m.String()); err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	r.HoleBytes += s.skeleton.HoleBytes
	r.count(s.skeleton)
	return nil
}

// writeBundle writes the bundle at a path with other sections, and the mark of skeletons.
func (r *stripped) writeBundle(out *pendingOutput, path string, contents map[string]*newFile) error {
	sections := map[string]*os.File{}
	for name, f := range contents {
		sections[name] = f.File.File
	}
	if err := errors.Join(bundle.Replace(out.File.File, path, sections), bundle.Mark(out.File.File)); err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return err
	}
	r.FileBytes = info.Size()
	return nil
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second), err
}
