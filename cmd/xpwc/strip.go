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

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/models/executorch"
	"xpwc/models/litert"
	"xpwc/models/tflite"
)

type stripOptions struct {
	packed, output string
	cpu, library   string // of LiteRT
	minimum        int64  // for LiteRT: smallest kernel to leave out, in bytes; 0 for a page
	placing
}

func newStripCommand() *cobra.Command {
	var o stripOptions
	var targets []string
	cmd := &cobra.Command{
		Use:   "strip MODEL [DATA...] --packed FILE -o SKELETON",
		Short: "Leave out of a model the weights that a packed file has",
		Long: `Writes a model (.pte, .tflite) without the weights that its stock runtime finds in FILE,
which xpwc pack --for packed for MODEL. They become holes, which take no space on the disk.
So the weights are there once, packed. DATA are the .ptd files of a program that has
external data: they stay as they are.

Only weights that nothing but packing reads are left out. All others stay, and the reasons
are printed. LiteRT checks each packed kernel that it takes from FILE before its first
answer: without FILE, or with that of another CPU, it returns an error. With the file of
another model it returns an error or, if they differ in weights that stay, SKELETON's own
answer. A kernel of which no check sees each element stays, and LiteRT packs it at each
start. ExecuTorch answers NaN or infinities without FILE; a .pte of which that cannot be
said is refused. A kernel that stays gets a new name in the .pte if another program's file
may have another packing under the old one: ExecuTorch packs it at each load. xpwc itself
refuses a SKELETON.

SKELETON is for FILE, and so for its CPU, and cannot be packed again: keep MODEL. Tools
that copy files need a flag to keep holes (cp --sparse=always, rsync -S, tar -S).`,
		Example: `  xpwc pack model.pte --for executorch -o model.packed_cache
  xpwc verify model.packed_cache --model model.pte
  xpwc strip model.pte --packed model.packed_cache -o skeleton.pte
  xpwc pack model.tflite --for litert --cpu avx2 -o packed
  xpwc strip model.tflite --packed packed --cpu avx2 -o skeleton.tflite`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			level, err := levelOf(cmd, o.cpu, targets)
			if err != nil {
				return err
			}
			o.cpu = level
			if o.output == "" || o.packed == "" {
				return usagef("--packed FILE or -o SKELETON is missing")
			}
			model := modelfile.Parse(args[0])
			model.Data = args[1:]
			if !model.Program() {
				return stripLiteRT(cmd.Context(), model, o)
			}
			return strip(cmd.Context(), model, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.packed, "packed", "", "`FILE` that was packed for MODEL and the stock runtime")
	f.StringVarP(&o.output, "output", "o", "", "`SKELETON` to write; an existing skeleton is replaced")
	f.StringVar(&o.cpu, "cpu", native, "of LiteRT's files: CPU `LEVEL` it was packed for: "+levelNames())
	targetFlag(cmd, &targets, "of LiteRT's files that it was packed for")
	libraryFlag(cmd, &o.library)
	f.Int64Var(&o.minimum, "least", 0, "")
	_ = f.MarkHidden("least")
	o.placing.flags(cmd)
	jsonFlag(cmd)
	return cmd
}

// stripped is the result of xpwc strip.
type stripped struct {
	Model     string        `json:"model"`
	Packed    string        `json:"packed"`
	Output    string        `json:"output"`
	LiteRT    string        `json:"litert,omitempty"` // its version, if it is for LiteRT
	CPU       string        `json:"cpu"`              // level that the packed file is for
	Kernels   int           `json:"kernel_count"`
	HoleBytes int64         `json:"hole_bytes"`
	FileBytes int64         `json:"file_bytes"` // with the holes
	Kept      []keptWeights `json:"kept"`
	Renamed   int           `json:"renamed_constant_count,omitempty"` // ExecuTorch packs their kernels at each load
}

type keptWeights struct {
	Reason  string `json:"why"`
	Kernels int    `json:"kernel_count"`
	Bytes   int64  `json:"bytes"`
}

func (k keptWeights) String() string {
	return fmt.Sprintf("%s, %s: %s", console.Plural(k.Kernels, "kernel"), console.Size(k.Bytes), k.Reason)
}

// nothingToOmit returns why a skeleton would be the whole model: the reason of each of its kernels.
func (r *stripped) nothingToOmit() string {
	var reasons []string
	for _, k := range r.Kept {
		reasons = append(reasons, k.String())
	}
	return strings.Join(append([]string{"all of its weights would stay"}, reasons...), "; ")
}

func strip(ctx context.Context, model modelfile.File, o stripOptions) (err error) {
	p, err := executorch.Open(model.Path, model.Data...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	origin, err := newPackedFor(model, native)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	if err := withFile(o.packed, func(f *cachefile.File) error { return stockNames(f, origin, names) }); err != nil {
		return err
	}
	skeleton, err := p.Skeleton(func(name string) bool { return names[name] })
	if err != nil {
		return err
	}
	r := &stripped{CPU: origin.CPU, Kernels: skeleton.Kernels, HoleBytes: skeleton.HoleBytes,
		FileBytes: skeleton.FileBytes, Renamed: skeleton.Renamed}
	for _, k := range skeleton.Remaining {
		r.Kept = append(r.Kept, keptWeights(k))
	}
	if r.Kernels == 0 {
		return fmt.Errorf("%s: %s", model.Path, r.nothingToOmit())
	}
	return r.write(ctx, origin, o, func(s *pendingOutput) error { return skeleton.Write(s.File.File) })
}

// write writes a skeleton and puts it at its path.
func (r *stripped) write(ctx context.Context, origin *packedFor, o stripOptions,
	write func(s *pendingOutput) error) error {
	r.Model, r.Packed, r.Output = origin.model.String(), o.packed, o.output
	r.Kept = append([]keptWeights{}, r.Kept...) // not null
	s, err := newReplacing(ctx, o.output, o.placing, onlySkeletons, append(origin.model.Files(), o.packed)...)
	if err != nil {
		return err
	}
	defer s.discard()
	if err := errors.Join(write(s), origin.check()); err != nil {
		return fmt.Errorf("%w\nnothing was written to %s", err, o.output)
	}
	if err := s.publish(); err != nil {
		return err
	}
	setResult(ctx, r)
	return nil
}

// stockNames adds the names by which the stock runtime finds a file's entries. The file must record the program that
// it was packed for. stockNames sets the file's CPU in origin.
func stockNames(f *cachefile.File, origin *packedFor, names map[string]bool) error {
	info, err := f.Info()
	if err != nil {
		return err
	}
	packed := readPackedFor(info.Note)
	if info.Format != cachefile.XPWC2 || packed == nil {
		return fmt.Errorf("%s does not say which program it was packed for: pack one with --for %s", f.Path(),
			forExecuTorch)
	}
	if !packed.sameProgram(origin) {
		return fmt.Errorf("%s was packed for %s, and %s is another program: %w", f.Path(), packed, origin, errUnproven)
	}
	origin.CPU = packed.CPU
	for e, err := range f.Entries() {
		if err != nil {
			return err
		}
		names[e.Name] = true
	}
	return nil
}

// onlySkeletons is replaces for skeletons.
func onlySkeletons(existing *os.File) error {
	ok, err := isSkeleton(existing)
	if err != nil {
		return err
	}
	if !ok {
		return leftAsItIs(fmt.Errorf("%s is no skeleton", existing.Name()))
	}
	return nil
}

func (r *stripped) print(w io.Writer) {
	runtime, without := "ExecuTorch", "answers NaN or infinities"
	if r.LiteRT != "" {
		runtime, without = "LiteRT "+r.LiteRT, "fails in place of answering"
	}
	architecture, cpu := machineOf(r.CPU)
	fmt.Fprintf(w, "%s: for %s with %s, on %s: %s, of which %s take space; %s left out\n", console.Printable(r.Output),
		runtime, console.Printable(r.Packed), onCPUs(architecture, cpu, "the machine's that packed it"),
		console.Size(r.FileBytes), console.Size(r.FileBytes-r.HoleBytes), console.Plural(r.Kernels, "kernel"))
	for _, k := range r.Kept {
		fmt.Fprintf(w, "stays: %s\n", k)
	}
	if r.Renamed > 0 {
		fmt.Fprintf(w, "note: the runtime packs the kernels of %s at each load: they have new names in the skeleton, "+
			"because another program may have packed weights under the old ones\n",
			console.Plural(r.Renamed, "constant"))
	}
	fmt.Fprintf(w, "note: without that file it %s; keep %s\n", without, console.Printable(r.Model))
}

// stripLiteRT writes the skeleton of a model for LiteRT and a file that was packed for it.
func stripLiteRT(ctx context.Context, model modelfile.File, o stripOptions) (err error) {
	if err := errors.Join(checkLiteRTModel(model), checkLevel(o.cpu)); err != nil {
		return err
	}
	if model.Bundle() {
		return fmt.Errorf("%s: %w: a bundle keeps its weights", model, tflite.ErrNoSkeleton)
	}
	packer, err := newLiteRTPacker(o.library, o.cpu)
	if err != nil {
		return err
	}
	origin, err := newPackedFor(model, o.cpu)
	if err != nil {
		return err
	}
	proven, err := provenKeys(ctx, model, o)
	if err != nil {
		return err
	}
	skeleton, err := tflite.NewSkeleton(model.Path, o.minimum)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, skeleton.Close()) }()
	uses, err := packer.choose(ctx, skeleton, proven, o.cpu)
	if err != nil {
		return err
	}
	r := &stripped{LiteRT: packer.release.Version, CPU: o.cpu}
	return r.write(ctx, origin, o, func(s *pendingOutput) error {
		if err := packer.writeSkeleton(ctx, s, skeleton, proven, uses, o.cpu); err != nil {
			return fmt.Errorf("%s: %w", model.Path, err)
		}
		r.HoleBytes, r.FileBytes = skeleton.HoleBytes, skeleton.FileBytes
		r.count(skeleton)
		return nil
	})
}

// provenKeys returns the keys of a file that equals, byte for byte, what LiteRT packs for the model.
func provenKeys(ctx context.Context, model modelfile.File, o stripOptions) (map[litert.Key]bool, error) {
	f, err := litert.Open(o.packed)
	if err != nil {
		return nil, err
	}
	if err := mustProve(ctx, o.packed, model, o.cpu, o.library); err != nil {
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

// writeSkeleton writes a skeleton with which LiteRT uses the file's entry of each kernel that has a check, and no other
// entry of the file.
func (p *litertPacker) writeSkeleton(ctx context.Context, s *pendingOutput, skeleton *tflite.Skeleton,
	proven map[litert.Key]bool,
	uses map[*tflite.Kernel]litert.Key, level string) error {
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
		if err := errors.Join(s.Truncate(0), skeleton.Write(s.File.File)); err != nil {
			return err
		}
		work, f, err := p.packAside(ctx, modelfile.File{Path: s.path}, level, s.File.File)
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

// count counts the kernels left out, and those that stay by reason.
func (r *stripped) count(skeleton *tflite.Skeleton) {
	for _, k := range skeleton.Kernels {
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
