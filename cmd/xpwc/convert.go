package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
)

type convertOptions struct {
	format, out, layout string
	placing
	model modelfile.File // program that a file for ExecuTorch is for
}

var formatNames = []string{string(cachefile.Native), string(cachefile.XPWC2)}

func newConvertCommand() *cobra.Command {
	var o convertOptions
	cmd := &cobra.Command{
		Use:   "convert FILE --to FORMAT -o OUT",
		Short: "Make a cache file of another format",
		Long: `Makes a cache file OUT of the entries of FILE, in one of these formats. FILE may be a
safetensors file with packed weights in it.

  native   xpwc's own.
  xpwc2    what ExecuTorch's XNNWeightsCache writes and reads: names, seeds and packed
           weights, no checksums.

ExecuTorch's files have entries of one layout: of several in FILE, --layout names it. Of
several entries with one name the one used last is taken, and none if ExecuTorch could not
distinguish them. What is left out is printed. A file that
ExecuTorch wrote does not become a native one: pack the model (xpwc pack). The stock
runtime crashes with any file on a program with a PReLU: give --model, and such a program
is refused.

Checksums of payloads are compared while they are copied. OUT appears when it is
complete. If OUT exists it must be a cache or empty.`,
		Example: `  xpwc convert model.xpwc --to xpwc2 -o model.packed_cache
  xpwc convert model.xpwc --to native --layout current -o mine.xpwc`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.format == "":
				return usagef("--to is missing: it is one of %s", strings.Join(formatNames, ", "))
			case !slices.Contains(formatNames, o.format):
				return usagef("--to %s: it is one of %s", o.format, strings.Join(formatNames, ", "))
			case o.out == "":
				return usagef("-o is missing: the file to write")
			case o.model.Path != "" && (o.format != string(cachefile.XPWC2) || !o.model.Program()):
				return usagef("--model is for --to %s, and a program (.pte)", cachefile.XPWC2)
			}
			if err := checkModel(o.model); err != nil {
				return err
			}
			if o.model.Path != "" {
				if err := checkStockRunsFile(o.model); err != nil {
					return err
				}
			}
			return withFile(args[0], func(f *cachefile.File) error { return convert(cmd.Context(), f, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.format, "to", "", "`FORMAT` of the new file: "+strings.Join(formatNames, ", "))
	flags.StringVarP(&o.out, "output", "o", "", "`FILE` to write")
	flags.StringVar(&o.layout, "layout", "",
		"only entries of this `LAYOUT`: the beginning of a fingerprint, or current")
	flags.Var(&o.model, "model", "program (`MODEL`.pte) that the file for ExecuTorch is for")
	dataFlag(cmd, &o.model.Data)
	o.placing.flags(cmd)
	jsonFlag(cmd)
	return cmd
}

// conversion is the result of xpwc convert.
type conversion struct {
	File     string           `json:"file"`
	Output   string           `json:"output"`
	Source   cachefile.Format `json:"from"`
	Target   cachefile.Format `json:"to"`
	Layout   string           `json:"layout,omitempty"`
	Entries  int              `json:"entry_count"`
	Bytes    int64            `json:"file_bytes"`
	LeftOut  []leftOut        `json:"left_out,omitempty"`
	Original int              `json:"original_entry_count"`

	unchecked bool // no program was given for a file for ExecuTorch
}

func convert(ctx context.Context, f *cachefile.File, o convertOptions) error {
	info, err := f.Info()
	if err != nil {
		return err
	}
	r := &conversion{
		File: f.Path(), Output: o.out, Source: info.Format, Target: cachefile.Format(o.format), Original: info.Entries,
		unchecked: o.format == string(cachefile.XPWC2) && o.model.Path == "",
	}
	var keep func(cachefile.Entry) bool
	if o.layout != "" {
		layout, err := selectLayout(r.File, info.Layouts, o.layout)
		if err != nil {
			return err
		}
		r.Layout = layout.String()
		keep = func(e cachefile.Entry) bool { return e.Layout == layout }
	}
	s, err := newReplacing(ctx, o.out, o.placing, onlyCaches, r.File)
	if err != nil {
		return err
	}
	defer s.discard()
	leaveOut := func(e cachefile.Entry, err error) error {
		if errors.Is(err, cachefile.ErrDamaged) {
			return fmt.Errorf("%w; xpwc compact leaves it out", err)
		}
		r.LeftOut = append(r.LeftOut, leftOut{e.Name, err.Error()})
		return nil
	}
	err = writeCache(ctx, f, s.File.File, "copying", keep,
		cachefile.WriteOptions{Format: r.Target, LeftOut: leaveOut})
	if errors.Is(err, cachefile.ErrLayouts) {
		err = fmt.Errorf("%w with --layout", err)
	}
	if err != nil {
		return err
	}
	err = s.view(func(f *cachefile.File) error {
		info, err := f.Info()
		r.Entries, r.Bytes = info.Entries, info.FileBytes
		return err
	})
	if err != nil {
		return err
	}
	if err := s.publish(); err != nil {
		return err
	}
	setResult(ctx, r)
	return nil
}

func (r *conversion) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s in %s, %s", r.Output, console.Plural(r.Entries, "entry"), console.Size(r.Bytes), r.Target)
	if r.Layout != "" {
		fmt.Fprintf(w, ", of layout %s", r.Layout)
	}
	fmt.Fprintln(w)
	if r.unchecked {
		fmt.Fprintln(w, crashNote)
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "left out: %s\n", console.Printable(l.Reason))
	}
}
