package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/litert"
	"xpwc/registry"
)

// A litertProof is what files for LiteRT are compared with before they are pushed.
type litertProof struct {
	model   modelfile.File
	levels  []string
	library string
	given   func() bool // whether the command line has any of it
}

func (p *litertProof) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.model.Path, "model", "", "of LiteRT's files: the `MODEL` (.tflite) to pack and compare them with")
	f.StringSliceVar(&p.levels, "cpu", []string{native}, "of LiteRT's files: CPU `LEVEL`s they are for: "+levelNames())
	libraryFlag(cmd, &p.library)
	p.given = func() bool { return f.Changed("model") || f.Changed("cpu") || f.Changed("litert-lm") }
}

// check reports whether files for LiteRT are to be pushed. Then all must be.
func (p *litertProof) check(files []string) (bool, error) {
	if !p.given() && !slices.ContainsFunc(files, litert.IsCache) {
		return false, nil
	}
	if p.model.Path == "" {
		return false, usagef("%s: LiteRT, which such a file is for, does not compare models: give --model, the model "+
			"that it was packed from, to be compared with it", files[0])
	}
	err := errors.Join(checkModel(p.model), checkLiteRTModel(p.model))
	for _, level := range p.levels {
		err = errors.Join(err, checkLevel(level))
	}
	if err != nil {
		return false, err
	}
	for _, path := range files {
		if _, err := litert.Open(path); err != nil {
			return false, err
		}
	}
	return true, nil
}

// push is registry.Push for files for LiteRT.
func (p *litertProof) push(ctx context.Context, ref string, paths []string,
	o *registry.Options) (*registry.Pushed, error) {
	files, err := p.prove(ctx, paths)
	if err != nil {
		return nil, err
	}
	return registry.PushLiteRT(ctx, ref, files, o)
}

// prove finds out for which level each file is, by packing the model. Two levels can have the same file.
func (p *litertProof) prove(ctx context.Context, paths []string) (files []registry.LiteRTFile, err error) {
	packer, err := newLiteRTPacker(p.library)
	if err != nil {
		return nil, err
	}
	packed := map[string][]litert.Target{} // by the SHA-256 of their files
	model := ""
	for _, level := range p.levels {
		of, err := newPackedFor(p.model, level)
		if err != nil {
			return nil, err
		}
		sum, err := packer.sumPacked(ctx, of)
		if err != nil {
			return nil, err
		}
		model = of.Files[0].SHA256
		if target := litertTarget(packer.release, level); !slices.Contains(packed[sum], target) {
			packed[sum] = append(packed[sum], target)
		}
	}
	for _, path := range paths {
		sum, err := sumOf(path)
		if err != nil {
			return nil, err
		}
		targets, ok := packed[sum]
		if !ok {
			return nil, fmt.Errorf("%s: %w, %s for CPU %s; xpwc verify --model says what differs, and "+
				"xpwc pack --for litert writes the right one", path, errUnproven, p.model.Path,
				strings.Join(p.levels, " or "))
		}
		for _, target := range targets {
			files = append(files, registry.LiteRTFile{Path: path, SHA256: sum, For: target, Model: model})
		}
		packed[sum] = nil // of two equal files one is pushed
	}
	for _, targets := range packed {
		if len(targets) > 0 {
			return nil, usagef("--cpu: no file is for CPU %s", targets[0].CPU)
		}
	}
	return files, nil
}

// sumPacked returns the SHA-256 of the file that a model is packed into.
func (p *litertPacker) sumPacked(ctx context.Context, of *packedFor) (string, error) {
	work, f, err := p.packAside(ctx, of.model.Path, of.CPU)
	if err != nil {
		return "", err
	}
	defer work.discard()
	sum, _, err := sha256Of(io.NewSectionReader(work, 0, f.FileBytes))
	return sum, errors.Join(err, of.check())
}

// litertHere is what a file for LiteRT on this machine is for.
func litertHere() (litert.Target, error) {
	release, known := litert.Newest(runtime.GOARCH)
	if !known {
		return litert.Target{}, fmt.Errorf("--for litert: no LiteRT is known on %s; without a file it packs for itself",
			runtime.GOARCH)
	}
	return litertTarget(release, native), nil
}

// proveLiteRT compares what was pulled with the file that the model is packed into here.
func (p *pulling) proveLiteRT(ctx context.Context, s *stage, o *pullOptions, of *packedFor) error {
	if l := p.Layouts[0]; l.Model != of.Files[0].SHA256 {
		return fmt.Errorf("what was pulled is for another model, with SHA-256 %q, than %s: %w", l.Model, of, errUnproven)
	}
	file := s.File.File
	if p.UpToDate {
		var err error
		if file, _, err = fd.OpenRegular(s.path); err != nil {
			return err
		}
		defer file.Close()
	}
	var err error
	p.Proof, err = proveLiteRT(ctx, file, o.model, native, o.library)
	return errors.Join(err, of.check())
}
