package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"xpwc/internal/modelfile"
	"xpwc/models/litert"
	"xpwc/models/tflite"
)

// stripLiteRT writes the skeleton of a model for LiteRT and a file that was packed for it.
func stripLiteRT(ctx context.Context, model modelfile.File, o stripOptions) (err error) {
	if err := checkLiteRTModel(model); err != nil {
		return err
	}
	packer, err := o.litertPacker()
	if err != nil {
		return err
	}
	origin, err := newPackedFor(model, o.cpu)
	if err != nil {
		return err
	}
	s, err := packer.stripping(ctx, model, o.packed[0], o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.skeleton.Close()) }()
	r := &stripped{LiteRT: packer.release.Version, CPU: o.cpu}
	return r.write(ctx, origin, o, func(out *pendingOutput) error {
		if err := s.write(ctx, out.newFile, out.path); err != nil {
			return fmt.Errorf("%s: %w", model.Path, err)
		}
		r.HoleBytes, r.FileBytes = s.skeleton.HoleBytes, s.skeleton.FileBytes
		r.count(s.skeleton)
		return nil
	})
}

// litertPacker returns what packs for the options.
func (o *stripOptions) litertPacker() (*litertPacker, error) {
	if err := checkLevel(o.cpu); err != nil {
		return nil, err
	}
	return newLiteRTPacker(o.library, o.cpu)
}

// A litertStripping makes the skeleton of one model for LiteRT.
type litertStripping struct {
	packer   *litertPacker
	level    string // of the CPU
	skeleton *tflite.Skeleton
	proven   map[litert.Key]bool           // of the packed file
	uses     map[*tflite.Kernel]litert.Key // what the check of a kernel computes with
}

// stripping finds the kernels that can be left out of a model whose packed file is at a path. The caller closes the
// skeleton.
func (p *litertPacker) stripping(ctx context.Context, model modelfile.File, packed string,
	o stripOptions) (s *litertStripping, err error) {
	s = &litertStripping{packer: p, level: o.cpu}
	if s.proven, err = provenKeys(ctx, model, packed, o); err != nil {
		return nil, err
	}
	if s.skeleton, err = tflite.NewSkeleton(model.Path, &tflite.SkeletonOptions{Minimum: o.minimum,
		Offset: model.Offset, Size: model.Size}); err != nil {
		return nil, err
	}
	if s.uses, err = p.choose(ctx, s.skeleton, s.proven, o.cpu); err != nil {
		return nil, errors.Join(err, s.skeleton.Close())
	}
	return s, nil
}

// provenKeys returns the keys of a file that equals, byte for byte, what LiteRT packs for the model.
func provenKeys(ctx context.Context, model modelfile.File, packed string, o stripOptions) (map[litert.Key]bool, error) {
	f, err := litert.Open(packed)
	if err != nil {
		return nil, err
	}
	if err := mustProve(ctx, packed, model, o.cpu, o.library); err != nil {
		return nil, err
	}
	keys := map[litert.Key]bool{}
	for _, e := range f.Entries {
		keys[e.Key] = true
	}
	return keys, nil
}

// choose finds the kernels that can be left out, and returns the file's entry that each check uses.
func (p *litertPacker) choose(ctx context.Context, skeleton *tflite.Skeleton, proven map[litert.Key]bool,
	level string) (uses map[*tflite.Kernel]litert.Key, err error) {
	uses = map[*tflite.Kernel]litert.Key{}
	if !leavesOut(skeleton) {
		return uses, nil
	}
	var f *litert.File
	for changed := true; changed; {
		var answered, without []byte
		if answered, f, err = p.probe(ctx, skeleton, false, level); err != nil {
			return nil, err
		}
		if without, _, err = p.probe(ctx, skeleton, true, level); err != nil {
			return nil, err
		}
		if changed, err = skeleton.SetAnswers(answered, without); err != nil {
			return nil, err
		}
	}
	for _, k := range skeleton.Kernels {
		if k.Unchecked != "" {
			continue
		}
		packed := slices.IndexFunc(f.Entries, func(e litert.Entry) bool { return isOf(e.Key, k) })
		if packed < 0 {
			k.Unchecked = notInFile
			continue
		}
		key := f.Entries[packed].Key
		if !proven[key] {
			const lastOfAPart = 1 << 4 // the change in the seed by XNNPACK's flag for such an operator
			key.Seed ^= lastOfAPart
			k.Last = proven[key]
		}
		if !proven[key] {
			k.Unchecked = notInFile
		}
		uses[k] = key
	}
	return uses, nil
}

// leavesOut reports whether a kernel is left out.
func leavesOut(s *tflite.Skeleton) bool {
	return slices.ContainsFunc(s.Kernels, func(k *tflite.Kernel) bool {
		_, stays := k.Stays()
		return !stays
	})
}

// notInFile is the reason why a kernel stays.
const notInFile = "not in the file of packed weights"

// isOf reports whether an entry is packed from a kernel. Those for inputs that are quantised at run time have no bias.
func isOf(key litert.Key, k *tflite.Kernel) bool {
	return key.Kernel == k.Buffer && (key.Bias == k.Bias || key.Bias == litert.NoBuffer)
}

// probe computes the answers to the checks with LiteRT's code, and packs for that.
func (p *litertPacker) probe(ctx context.Context, skeleton *tflite.Skeleton, holes bool,
	level string) (answers []byte, f *litert.File, err error) {
	model, err := makeFile(ctx, filepath.Join(os.TempDir(), "probe.tflite"))
	if err != nil {
		return nil, nil, err
	}
	defer model.discard()
	if err := skeleton.WriteProbe(model.File.File, holes); err != nil {
		return nil, nil, err
	}
	dst, err := makeFile(ctx, filepath.Join(os.TempDir(), "answers"))
	if err != nil {
		return nil, nil, err
	}
	defer dst.discard()
	work, f, err := p.packAside(ctx, modelfile.File{Path: "the checks"}, level, model.File.File, dst.File.File)
	if err != nil {
		return nil, nil, err
	}
	work.discard()
	info, err := dst.Stat()
	if err != nil {
		return nil, nil, err
	}
	answers = make([]byte, info.Size())
	_, err = dst.ReadAt(answers, 0)
	return answers, f, err
}

// write writes the skeleton into an empty file, of the name given. With it LiteRT uses the packed file's entry of each
// kernel that has a check, and no other entry.
func (s *litertStripping) write(ctx context.Context, dst *newFile, name string) error {
	skeleton, proven, uses := s.skeleton, s.proven, s.uses
	for {
		uncovered := map[uint64]bool{}
		for key := range proven {
			covers := func(k *tflite.Kernel) bool { return k.Unchecked == "" && uses[k] == key }
			uncovered[key.Kernel] = uncovered[key.Kernel] || !slices.ContainsFunc(skeleton.Kernels, covers)
		}
		skeleton.Packed(uncovered)
		if !leavesOut(skeleton) {
			var r stripped
			r.count(skeleton)
			return fmt.Errorf("%w: %s", tflite.ErrNoSkeleton, r.nothingToOmit())
		}
		if err := errors.Join(dst.Truncate(0), skeleton.Write(dst.File.File)); err != nil {
			return err
		}
		work, f, err := s.packer.packAside(ctx, modelfile.File{Path: name}, s.level, dst.File.File)
		if err != nil {
			return err
		}
		work.discard()
		retry, missing := false, false
		for _, e := range f.Entries {
			if proven[e.Key] || e.Key.Kernel >= skeleton.Buffers() {
				continue // a kernel that LiteRT packs at each start
			}
			for _, k := range skeleton.Kernels {
				if k.Unchecked == "" && isOf(e.Key, k) {
					k.Unchecked, retry = notInFile, true
				}
			}
			missing = true
		}
		if !missing {
			return nil
		}
		if !retry {
			return fmt.Errorf("%w: with checks LiteRT asks for other packed weights", tflite.ErrNoSkeleton)
		}
	}
}

// count adds up the kernels that are left out, and for each reason those that stay. A kernel of several operators
// counts once.
func (r *stripped) count(skeleton *tflite.Skeleton) {
	counted := map[uint64]bool{}
	for _, k := range skeleton.Kernels {
		if counted[k.Buffer] {
			continue
		}
		counted[k.Buffer] = true
		reason, stays := k.Stays()
		if !stays {
			r.Kernels++
			continue
		}
		i := slices.IndexFunc(r.Kept, func(group keptWeights) bool { return group.Reason == reason })
		if i < 0 {
			i, r.Kept = len(r.Kept), append(r.Kept, keptWeights{Reason: reason})
		}
		r.Kept[i].Kernels++
		r.Kept[i].Bytes += k.Bytes
	}
}
