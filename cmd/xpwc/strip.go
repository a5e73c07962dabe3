package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/models/executorch"
)

type stripOptions struct {
	packed       []string // one, unless a bundle has several models
	output       string
	cpu, library string // of LiteRT
	minimum      int64  // for LiteRT: smallest kernel to leave out, in bytes; 0 for a page
	placing
}

func newStripCommand() *cobra.Command {
	var o stripOptions
	var targets []string
	cmd := &cobra.Command{
		Use:   "strip MODEL [DATA...] --packed FILE -o SKELETON",
		Short: "Leave out of a model the weights that a packed file has",
		Long: `Writes a model (.pte, .tflite, .litertlm, .task) without the weights that its
stock runtime finds in FILE, which xpwc pack --for packed for MODEL. They become holes, which
take no space on the disk, or, where a .tflite has them outside its flatbuffer, a short range
of zeros. So the weights are there once, packed. DATA are the .ptd files of a program that
has external data: they stay as they are. Of a bundle each model that LiteRT-LM packs has a
FILE; the others stay whole. xpwc place names the FILEs for the SKELETON.

Only weights that nothing but packing reads are left out. All others stay, and the reasons
are printed. LiteRT checks each packed kernel that it takes from FILE before its first
answer: without FILE, or with that of another CPU, it returns an error. With the file of
another model it returns an error or, if they differ in weights that stay, SKELETON's own
answer. A kernel of which no check sees each element stays, and LiteRT packs it at each
start. ExecuTorch answers NaN or infinities without FILE; a .pte of which that cannot be
said is refused. A kernel that stays gets a new name in the .pte if another program's file
may have another packing under the old one: ExecuTorch packs it at each load.

xpwc runs a SKELETON of a .tflite or bundle with a cache file that has MODEL's weights,
and refuses that of a .pte. SKELETON is for FILE, and so for its CPU, and cannot be packed
again: keep MODEL. Tools that copy files need a flag to keep holes (cp --sparse=always,
rsync -S, tar -S).`,
		Example: `  xpwc pack model.pte --for executorch -o model.packed_cache
  xpwc verify model.packed_cache --model model.pte
  xpwc strip model.pte --packed model.packed_cache -o skeleton.pte
  xpwc pack model.tflite --for litert --cpu avx2 -o packed
  xpwc strip model.tflite --packed packed --cpu avx2 -o skeleton.tflite
  xpwc strip m.litertlm --packed m.litertlm_*.xnnpack_cache -o dist/m.litertlm`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			level, err := levelOf(cmd, o.cpu, targets)
			if err != nil {
				return err
			}
			o.cpu = level
			if o.output == "" || len(o.packed) == 0 {
				return usagef("--packed FILE or -o SKELETON is missing")
			}
			model := modelfile.Parse(args[0])
			model.Data = args[1:]
			switch {
			case !model.Program() && model.Bundle():
				// After --packed the shell puts all names that a pattern matches.
				o.packed, model.Data = append(o.packed, model.Data...), nil
				return stripBundle(cmd.Context(), model, o)
			case len(o.packed) > 1:
				return usagef("one --packed FILE is enough for a model")
			case !model.Program():
				return stripLiteRT(cmd.Context(), model, o)
			}
			return strip(cmd.Context(), model, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.packed, "packed", nil,
		"`FILE` that was packed for MODEL and the stock runtime; of a bundle one for each model")
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
	Sections  []keptSection `json:"kept_sections,omitempty"` // of a bundle
	// The bytes of the model and its packed files, which SKELETON and they replace together.
	ModelBytes  int64 `json:"model_bytes"`
	PackedBytes int64 `json:"packed_bytes"`
	Renamed     int   `json:"renamed_constant_count,omitempty"` // ExecuTorch packs their kernels at each load
}

type keptWeights struct {
	Reason  string `json:"why"`
	Kernels int    `json:"kernel_count"`
	Bytes   int64  `json:"bytes"`
}

// A keptSection is a section of a bundle with a model that stays whole.
type keptSection struct {
	Section string `json:"section"`
	Reason  string `json:"why"`
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
	if err := withFile(o.packed[0], func(f *cachefile.File) error { return stockNames(f, origin, names) }); err != nil {
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
	r.Model, r.Packed, r.Output = origin.model.String(), o.packed[0], o.output
	r.Kept = append([]keptWeights{}, r.Kept...) // not null
	inputs := append(origin.model.Files(), o.packed...)
	for i, path := range inputs {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if i < len(inputs)-len(o.packed) {
			r.ModelBytes += info.Size()
		} else {
			r.PackedBytes += info.Size()
		}
	}
	s, err := newReplacing(ctx, o.output, o.placing, onlySkeletons, inputs...)
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
	for _, k := range r.Sections {
		fmt.Fprintf(w, "stays: section %s, %s: %s\n", console.Printable(k.Section), console.Size(k.Bytes), k.Reason)
	}
	if r.Renamed > 0 {
		fmt.Fprintf(w, "note: the runtime packs the kernels of %s at each load: they have new names in the skeleton, "+
			"because another program may have packed weights under the old ones\n",
			console.Plural(r.Renamed, "constant"))
	}
	together := r.FileBytes - r.HoleBytes + r.PackedBytes
	fmt.Fprintf(w, "together with %s packed: %s, %.2f times the model's %s\n", console.Size(r.PackedBytes),
		console.Size(together), float64(together)/float64(r.ModelBytes), console.Size(r.ModelBytes))
	fmt.Fprintf(w, "note: without that file it %s; keep %s\n", without, console.Printable(r.Model))
}
