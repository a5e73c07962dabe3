package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/executorch"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
)

type stripOptions struct {
	packed, output string
	placing
	json bool
}

func newStripCommand() *cobra.Command {
	var o stripOptions
	cmd := &cobra.Command{
		Use:   "strip MODEL [DATA...] --packed FILE -o SKELETON",
		Short: "Leave out of a program the weights that a packed file has",
		Long: `Writes a program of ExecuTorch (.pte) without the weights that its stock runtime finds in
FILE, which xpwc pack --for executorch packed for MODEL. They become holes, which take no
space on the disk. So the weights are there once, packed, and the runtime reads no others.
DATA are the .ptd files, if MODEL has external data: they stay as they are.

Only weights that nothing but packing reads are left out, and only if they have a bias of
floats, which is NaN in SKELETON. All others stay, and the reasons are printed.

Without FILE the runtime packs what SKELETON has: then all elements of the outputs are NaN
or infinite. MODEL is refused where that cannot be said of each output: where it is not
from a node that adds such a bias and limits nothing. xpwc itself refuses a SKELETON.

SKELETON is for FILE, and so for its CPU, and cannot be packed again: keep MODEL. Tools
that copy files need a flag to keep holes (cp --sparse=always, rsync -S, tar -S).`,
		Example: `  xpwc pack model.pte --for executorch -o model.packed_cache
  xpwc verify model.packed_cache --model model.pte
  xpwc strip model.pte --packed model.packed_cache -o skeleton.pte`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.output == "" || o.packed == "" {
				return usagef("--packed FILE or -o SKELETON is missing")
			}
			model := modelfile.File{Path: args[0], Data: args[1:]}
			if !model.Program() {
				return usagef("only a program of ExecuTorch (.pte) can be stripped, and %s is none", model.Path)
			}
			return strip(cmd.Context(), model, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.packed, "packed", "", "`FILE` that was packed for MODEL and the stock runtime")
	f.StringVarP(&o.output, "output", "o", "", "`SKELETON` to write; an existing skeleton is replaced")
	o.placing.flags(cmd)
	jsonFlag(cmd, &o.json)
	return cmd
}

// stripped is the result of xpwc strip.
type stripped struct {
	Model     string        `json:"model"`
	Packed    string        `json:"packed"`
	Output    string        `json:"output"`
	CPU       string        `json:"cpu"` // level that the packed file is for
	Kernels   int           `json:"kernel_count"`
	HoleBytes int64         `json:"hole_bytes"`
	FileBytes int64         `json:"file_bytes"` // with the holes
	Kept      []keptWeights `json:"kept"`
}

type keptWeights struct {
	Why     string `json:"why"`
	Kernels int    `json:"kernel_count"`
	Bytes   int64  `json:"bytes"`
}

func strip(ctx context.Context, model modelfile.File, o stripOptions, stdout, stderr io.Writer) (err error) {
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
	skeleton, err := p.Skeleton(func(name string) bool { return names[name] })
	if err != nil {
		return err
	}
	if skeleton.Kernels == 0 {
		return fmt.Errorf("%s: all of its weights would stay", model.Path)
	}
	s, err := newStage(ctx, o.output, o.placing, stderr, append(model.Files(), o.packed)...)
	if err != nil {
		return err
	}
	defer s.discard()
	s.extend, s.replaces = false, onlySkeletons
	if err := errors.Join(skeleton.Write(s.File.File), of.check(), ctx.Err()); err != nil {
		return fmt.Errorf("%w\nnothing was written to %s", err, o.output)
	}
	if err := s.publish(); err != nil {
		return err
	}
	r := stripped{Model: model.Path, Packed: o.packed, Output: o.output, CPU: of.CPU, Kernels: skeleton.Kernels,
		HoleBytes: skeleton.HoleBytes, FileBytes: skeleton.FileBytes, Kept: []keptWeights{}}
	for _, k := range skeleton.Kept {
		r.Kept = append(r.Kept, keptWeights(k))
	}
	if o.json {
		setResult(ctx, r)
		return nil
	}
	return r.print(stdout)
}

// stockNames adds the names under which the stock runtime finds entries in a file, which must say that it was packed
// for a program. It notes for which CPU that is.
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
	info, err := there.Stat()
	if err != nil {
		return err
	}
	end := make([]byte, min(info.Size(), 128))
	if _, err := there.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return err
	}
	if !executorch.IsSkeleton(end) {
		return fmt.Errorf("%s is no skeleton, and is left as it is: remove it or choose another path", there.Name())
	}
	return nil
}

func (r *stripped) print(w io.Writer) error {
	on := "CPUs of level " + r.CPU
	if r.CPU == native {
		on = "CPUs like the machine's that packed it"
	}
	fmt.Fprintf(w, "%s: for ExecuTorch with %s, on %s: %s, of which %s take space; %s left out\n",
		console.Printable(r.Output), console.Printable(r.Packed), console.Printable(on), console.Size(r.FileBytes),
		console.Size(r.FileBytes-r.HoleBytes), console.Plural(r.Kernels, "kernel"))
	for _, k := range r.Kept {
		fmt.Fprintf(w, "stays: %s, %s: %s\n", console.Plural(k.Kernels, "kernel"), console.Size(k.Bytes), k.Why)
	}
	_, err := fmt.Fprintf(w, "note: without that file it answers NaN or infinities; keep %s\n",
		console.Printable(r.Model))
	return err
}
