package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/internal/output"
	"xpwc/models/executorch"
	"xpwc/models/litert"
	"xpwc/models/tflite"
)

type stripOptions struct {
	packed, output string
	cpu, library   string // of LiteRT
	least          int64  // for LiteRT: smallest kernel to leave out, in bytes; 0 for a page
	placing
}

func newStripCommand() *cobra.Command {
	var o stripOptions
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
said is refused. xpwc itself refuses a SKELETON.

SKELETON is for FILE, and so for its CPU, and cannot be packed again: keep MODEL. Tools
that copy files need a flag to keep holes (cp --sparse=always, rsync -S, tar -S).`,
		Example: `  xpwc pack model.pte --for executorch -o model.packed_cache
  xpwc verify model.packed_cache --model model.pte
  xpwc strip model.pte --packed model.packed_cache -o skeleton.pte
  xpwc pack model.tflite --for litert --cpu avx2 -o packed
  xpwc strip model.tflite --packed packed --cpu avx2 -o skeleton.tflite`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.output == "" || o.packed == "" {
				return usagef("--packed FILE or -o SKELETON is missing")
			}
			model := modelfile.File{Path: args[0], Data: args[1:]}
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
	libraryFlag(cmd, &o.library)
	f.Int64Var(&o.least, "least", 0, "")
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
}

type keptWeights struct {
	Reason  string `json:"why"`
	Kernels int    `json:"kernel_count"`
	Bytes   int64  `json:"bytes"`
}

func strip(ctx context.Context, model modelfile.File, o stripOptions) (err error) {
	p, err := executorch.Open(model.Path, model.Data...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	of, err := newPackedFor(model, native)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	if err := withFile(o.packed, func(f *cachefile.File) error { return stockNames(f, of, names) }); err != nil {
		return err
	}
	left, err := p.Skeleton(func(name string) bool { return names[name] })
	if err != nil {
		return err
	}
	if left.Kernels == 0 {
		return fmt.Errorf("%s: all of its weights would stay", model.Path)
	}
	r := &stripped{CPU: of.CPU, Kernels: left.Kernels, HoleBytes: left.HoleBytes, FileBytes: left.FileBytes}
	for _, k := range left.Remaining {
		r.Kept = append(r.Kept, keptWeights(k))
	}
	return r.write(ctx, of, o, func(s *stage) error { return left.Write(s.File.File) })
}

// write writes a skeleton and puts it at its path.
func (r *stripped) write(ctx context.Context, of *packedFor, o stripOptions, write func(s *stage) error) error {
	r.Model, r.Packed, r.Output = of.model.Path, o.packed, o.output
	r.Kept = append([]keptWeights{}, r.Kept...) // not null
	s, err := newReplacing(ctx, o.output, o.placing, onlySkeletons, append(of.model.Files(), o.packed)...)
	if err != nil {
		return err
	}
	defer s.discard()
	if err := errors.Join(write(s), of.check()); err != nil {
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
func stockNames(f *cachefile.File, of *packedFor, names map[string]bool) error {
	info, err := f.Info()
	if err != nil {
		return err
	}
	packed := readPackedFor(info.Note)
	if info.Format != cachefile.XPWC2 || packed == nil {
		return fmt.Errorf("%s does not say which program it was packed for: pack one with --for %s", f.Path(),
			forExecuTorch)
	}
	if !packed.sameProgram(of) {
		return fmt.Errorf("%s was packed for %s, and %s is another program: %w", f.Path(), packed, of, errUnproven)
	}
	of.CPU = packed.CPU
	for e, err := range f.Entries() {
		if err != nil {
			return err
		}
		names[e.Name] = true
	}
	return nil
}

// onlySkeletons is a stage's replaces for skeletons.
func onlySkeletons(there *os.File) error {
	is, err := isSkeleton(there)
	if err != nil {
		return err
	}
	if !is {
		return leftAsItIs(fmt.Errorf("%s is no skeleton", there.Name()))
	}
	return nil
}

func isSkeleton(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	end := make([]byte, min(info.Size(), 128))
	if _, err := f.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return false, err
	}
	return output.IsSkeleton(end), nil
}

func (r *stripped) print(w io.Writer) {
	runtime, without := "ExecuTorch", "answers NaN or infinities"
	if r.LiteRT != "" {
		runtime, without = "LiteRT "+r.LiteRT, "fails in place of answering"
	}
	fmt.Fprintf(w, "%s: for %s with %s, on %s: %s, of which %s take space; %s left out\n", console.Printable(r.Output),
		runtime, console.Printable(r.Packed), onCPUs(r.CPU, "the machine's that packed it"), console.Size(r.FileBytes),
		console.Size(r.FileBytes-r.HoleBytes), console.Plural(r.Kernels, "kernel"))
	for _, k := range r.Kept {
		fmt.Fprintf(w, "stays: %s, %s: %s\n", console.Plural(k.Kernels, "kernel"), console.Size(k.Bytes), k.Reason)
	}
	fmt.Fprintf(w, "note: without that file it %s; keep %s\n", without, console.Printable(r.Model))
}

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
	uses, err := packer.choose(ctx, left, has, o.cpu)
	if err != nil {
		return err
	}
	r := &stripped{LiteRT: packer.release.Version, CPU: o.cpu}
	return r.write(ctx, of, o, func(s *stage) error {
		if err := packer.writeSkeleton(ctx, s, left, has, uses, o.cpu); err != nil {
			return fmt.Errorf("%s: %w", model.Path, err)
		}
		r.HoleBytes, r.FileBytes = left.HoleBytes, left.FileBytes
		r.count(left)
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
	has := map[litert.Key]bool{}
	for _, e := range f.Entries {
		has[e.Key] = true
	}
	return has, nil
}

// choose finds the kernels that can be left out, and returns the file's entry that each check uses.
func (p *litertPacker) choose(ctx context.Context, left *tflite.Skeleton, has map[litert.Key]bool,
	level string) (uses map[*tflite.Kernel]litert.Key, err error) {
	uses = map[*tflite.Kernel]litert.Key{}
	if !leavesOut(left) {
		return uses, nil
	}
	var f *litert.File
	for again := true; again; {
		var with, without []byte
		if with, f, err = p.probe(ctx, left, false, level); err != nil {
			return nil, err
		}
		if without, _, err = p.probe(ctx, left, true, level); err != nil {
			return nil, err
		}
		if again, err = left.SetAnswers(with, without); err != nil {
			return nil, err
		}
	}
	for _, k := range left.Kernels {
		if k.Unchecked != "" {
			continue
		}
		packed := slices.IndexFunc(f.Entries, func(e litert.Entry) bool { return isOf(e.Key, k) })
		if packed < 0 {
			k.Unchecked = notInFile
			continue
		}
		key := f.Entries[packed].Key
		if !has[key] {
			const lastOfAPart = 1 << 4 // the change in the seed by XNNPACK's flag for such an operator
			key.Seed ^= lastOfAPart
			k.Last = has[key]
		}
		if !has[key] {
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

// writeSkeleton writes a skeleton with which LiteRT uses the file's entry of each kernel that has a check, and no other
// entry of the file.
func (p *litertPacker) writeSkeleton(ctx context.Context, s *stage, left *tflite.Skeleton, has map[litert.Key]bool,
	uses map[*tflite.Kernel]litert.Key, level string) error {
	for {
		uncovered := map[uint64]bool{}
		for key := range has {
			covers := func(k *tflite.Kernel) bool { return k.Unchecked == "" && uses[k] == key }
			uncovered[key.Kernel] = uncovered[key.Kernel] || !slices.ContainsFunc(left.Kernels, covers)
		}
		left.Packed(uncovered)
		if !leavesOut(left) {
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
			if has[e.Key] || e.Key.Kernel >= left.Buffers() {
				continue // a kernel that LiteRT packs at each start
			}
			for _, k := range left.Kernels {
				if k.Unchecked == "" && isOf(e.Key, k) {
					k.Unchecked, again = notInFile, true
				}
			}
			missing = true
		}
		if !missing {
			return nil
		}
		if !again {
			return fmt.Errorf("%w: with checks LiteRT asks for other packed weights", tflite.ErrNoSkeleton)
		}
	}
}

// count counts the kernels left out, and those that stay by reason.
func (r *stripped) count(left *tflite.Skeleton) {
	for _, k := range left.Kernels {
		why, stays := k.Stays()
		if !stays {
			r.Kernels++
			continue
		}
		i := slices.IndexFunc(r.Kept, func(kept keptWeights) bool { return kept.Reason == why })
		if i < 0 {
			i, r.Kept = len(r.Kept), append(r.Kept, keptWeights{Reason: why})
		}
		r.Kept[i].Kernels++
		r.Kept[i].Bytes += k.Bytes
	}
}
