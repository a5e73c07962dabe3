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
	"xpwc/litert"
	"xpwc/tflite"
)

// stripLiteRT writes the skeleton of a model for LiteRT and a file that was packed for it.
func stripLiteRT(ctx context.Context, model modelfile.File, o stripOptions) (err error) {
	if err := errors.Join(checkLiteRTModel(model), checkLevel(o.cpu)); err != nil {
		return err
	}
	packer, err := newLiteRTPacker(o.library)
	if err != nil {
		return err
	}
	of, err := newPackedFor(model, o.cpu)
	if err != nil {
		return err
	}
	has, err := provenKeys(ctx, model, o)
	if err != nil {
		return err
	}
	left, err := tflite.NewSkeleton(model.Path, o.least)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, left.Close()) }()
	if err := packer.choose(ctx, left, has, o.cpu); err != nil {
		return err
	}
	r := &stripped{LiteRT: packer.release.Version, CPU: o.cpu}
	return r.write(ctx, of, o, func(s *stage) error {
		if err := packer.writeSkeleton(ctx, s, left, has, o.cpu); err != nil {
			return fmt.Errorf("%s: %w", model.Path, err)
		}
		r.HoleBytes, r.FileBytes = left.HoleBytes, left.FileBytes
		r.count(left)
		return nil
	})
}

// provenKeys returns those of the entries of a file that has what a model is packed into, byte for byte.
func provenKeys(ctx context.Context, model modelfile.File, o stripOptions) (map[litert.Key]bool, error) {
	f, err := litert.Open(o.packed)
	if err != nil {
		return nil, err
	}
	if err := mustProve(ctx, o.packed, model, o.cpu, o.library); err != nil {
		return nil, err
	}
	has := map[litert.Key]bool{}
	for _, e := range f.Entries {
		has[e.Key] = true
	}
	return has, nil
}

// choose finds which kernels can be left out.
func (p *litertPacker) choose(ctx context.Context, left *tflite.Skeleton, has map[litert.Key]bool,
	level string) error {
	if !slices.ContainsFunc(left.Kernels, func(k *tflite.Kernel) bool { return k.Kept == "" }) {
		return nil
	}
	with, f, err := p.probe(ctx, left, false, level)
	if err != nil {
		return err
	}
	without, _, err := p.probe(ctx, left, true, level)
	if err != nil {
		return err
	}
	if err := left.SetAnswers(with, without); err != nil {
		return err
	}
	for _, k := range left.Kernels {
		packed := slices.IndexFunc(f.Entries, func(e litert.Entry) bool { return isOf(e.Key, k) })
		if packed < 0 {
			k.Kept = cmp.Or(k.Kept, notInFile)
			continue
		}
		key := f.Entries[packed].Key
		if !has[key] {
			const lastOfAPart = 1 << 4 // what XNNPACK's flag for such an operator changes in the seed
			key.Seed ^= lastOfAPart
			k.Last = has[key]
		}
		if !has[key] {
			k.Kept = cmp.Or(k.Kept, notInFile)
		}
	}
	return nil
}

// notInFile is why a kernel stays.
const notInFile = "not in the file of packed weights"

// isOf reports whether an entry is packed from a kernel. Those for inputs that are quantised at run time have no bias.
func isOf(key litert.Key, k *tflite.Kernel) bool {
	return key.Kernel == k.Buffer && (key.Bias == k.Bias || key.Bias == litert.None)
}

// probe has LiteRT's code compute the answers to the checks, and pack for that.
func (p *litertPacker) probe(ctx context.Context, left *tflite.Skeleton, holes bool,
	level string) (answers []byte, f *litert.File, err error) {
	model, err := makeFile(ctx, filepath.Join(os.TempDir(), "probe.tflite"))
	if err != nil {
		return nil, nil, err
	}
	defer model.discard()
	if err := left.WriteProbe(model.File.File, holes); err != nil {
		return nil, nil, err
	}
	to, err := makeFile(ctx, filepath.Join(os.TempDir(), "answers"))
	if err != nil {
		return nil, nil, err
	}
	defer to.discard()
	work, f, err := p.packAside(ctx, "what checks it", level, model.File.File, to.File.File)
	if err != nil {
		return nil, nil, err
	}
	work.discard()
	info, err := to.Stat()
	if err != nil {
		return nil, nil, err
	}
	answers = make([]byte, info.Size())
	_, err = to.ReadAt(answers, 0)
	return answers, f, err
}

// writeSkeleton writes a skeleton with which LiteRT asks for no entry that the file does not have.
func (p *litertPacker) writeSkeleton(ctx context.Context, s *stage, left *tflite.Skeleton, has map[litert.Key]bool,
	level string) error {
	for {
		if !slices.ContainsFunc(left.Kernels, func(k *tflite.Kernel) bool { return k.Kept == "" }) {
			return fmt.Errorf("%w: all of its weights would stay", tflite.ErrNoSkeleton)
		}
		if err := errors.Join(s.Truncate(0), left.Write(s.File.File)); err != nil {
			return err
		}
		work, f, err := p.packAside(ctx, s.path, level, s.File.File)
		if err != nil {
			return err
		}
		work.discard()
		again, missing := false, false
		for _, e := range f.Entries {
			for _, k := range left.Kernels {
				if !has[e.Key] && k.Kept == "" && isOf(e.Key, k) {
					k.Kept, again = notInFile, true
				}
			}
			missing = missing || !has[e.Key]
		}
		if !missing {
			return nil
		}
		if !again {
			return fmt.Errorf("%w: with checks LiteRT asks for other packed weights", tflite.ErrNoSkeleton)
		}
	}
}

// count takes how many kernels are left out, and for which reasons others stay.
func (r *stripped) count(left *tflite.Skeleton) {
	for _, k := range left.Kernels {
		if k.Kept == "" {
			r.Kernels++
			continue
		}
		i := slices.IndexFunc(r.Kept, func(kept keptWeights) bool { return kept.Why == k.Kept })
		if i < 0 {
			i, r.Kept = len(r.Kept), append(r.Kept, keptWeights{Why: k.Kept})
		}
		r.Kept[i].Kernels++
		r.Kept[i].Bytes += k.Bytes
	}
}
