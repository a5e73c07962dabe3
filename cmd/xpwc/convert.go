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
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
)

type convertOptions struct {
	to, out, layout string
	placing
	model             modelfile.File
	skipDamaged, json bool
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

ExecuTorch's files have neither layouts nor variants, so such a file has the entries of
one layout: of this machine's by default, or of the only one in FILE. --layout names
another, by the beginning of its fingerprint or by the word current. Of several entries
with one name the one used last is taken, and none if ExecuTorch could not distinguish
them. What is left out is printed.

To make a native file from one that ExecuTorch wrote, give the model that was packed
(.tflite or .pte) with --model: ExecuTorch's file has neither the layout of its entries
nor what they were packed from. The model is packed, and what of FILE has the same bytes
is counted.

Checksums of payloads are compared while they are copied. OUT appears by a rename, when
it is complete. If OUT exists it must be a cache or empty. It must not be FILE itself,
not even by a link.`,
		Example: `  xpwc convert model.xpwc --to xpwc2 -o model.packed_cache
  xpwc convert model.xpwc --to native --layout current -o mine.xpwc
  xpwc convert model.packed_cache --to native --model model.tflite -o model.xpwc`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.to == "":
				return usagef("--to is missing: it is one of %s", strings.Join(formatNames, ", "))
			case !slices.Contains(formatNames, o.to):
				return usagef("--to %s: it is one of %s", o.to, strings.Join(formatNames, ", "))
			case o.out == "":
				return usagef("-o is missing: the file to write")
			}
			if err := checkModel(o.model); err != nil {
				return err
			}
			return withFile(args[0], func(f *cachefile.File) error {
				return convert(cmd.Context(), f, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.to, "to", "", "`FORMAT` of the new file: "+strings.Join(formatNames, ", "))
	flags.StringVarP(&o.out, "output", "o", "", "`FILE` to write")
	flags.StringVar(&o.layout, "layout", "",
		"only entries of this `LAYOUT`: the beginning of a fingerprint, or current")
	flags.StringVar(&o.model.Path, "model", "",
		"the `MODEL` (.tflite, .pte) that ExecuTorch's file was packed from, to make a native file")
	dataFlag(cmd, &o.model.Data)
	flags.BoolVar(&o.skipDamaged, "skip-damaged", false, "leave out damaged entries, which are an error otherwise")
	o.placing.flags(cmd)
	jsonFlag(cmd, &o.json)
	completeWords(cmd, "to", formatNames...)
	layoutFlag(cmd, "layout")
	return cmd
}

// conversion is the result of xpwc convert.
type conversion struct {
	File     string           `json:"file"`
	Output   string           `json:"output"`
	From     cachefile.Format `json:"from"`
	To       cachefile.Format `json:"to"`
	Layout   string           `json:"layout,omitempty"`
	Entries  int              `json:"entry_count"`
	Bytes    int64            `json:"file_bytes"`
	LeftOut  []leftOut        `json:"left_out,omitempty"`
	Adopted  *int64           `json:"adopted,omitempty"` // ExecuTorch's entries that packing the model gave too
	Packed   *int64           `json:"packed,omitempty"`  // entries of the model
	Original int              `json:"original_entry_count"`
}

func convert(ctx context.Context, f *cachefile.File, o convertOptions, stdout, stderr io.Writer) error {
	info, err := f.Info()
	if err != nil && (!errors.Is(err, cachefile.ErrDamaged) || !o.skipDamaged) {
		return err
	}
	r := &conversion{
		File: f.Path(), Output: o.out, From: info.Format, To: cachefile.Format(o.to), Original: info.Entries,
	}
	packs := info.Format != cachefile.Native && r.To == cachefile.Native
	switch {
	case o.layout != "" && info.Format != cachefile.Native:
		return usagef("--layout: %s is a cache of ExecuTorch, which has no layouts", r.File)
	case o.model.Path != "" && !packs:
		return usagef("--model is for making a native file of one of ExecuTorch")
	case packs && o.model.Path == "":
		return usagef("%s: %v", r.File, cachefile.ErrForeign)
	}
	if err := r.make(ctx, f, info, packs, o, stderr); err != nil {
		return err
	}
	err = withFile(o.out, func(f *cachefile.File) error {
		info, err := f.Info()
		r.Entries, r.Bytes = info.Entries, info.FileBytes
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		setResult(ctx, r)
		return nil
	}
	r.print(stdout)
	return nil
}

// make makes the file in a stage, and moves it to its path.
func (r *conversion) make(ctx context.Context, f *cachefile.File, info cachefile.Info, packs bool, o convertOptions,
	stderr io.Writer) (err error) {
	s, err := newCacheStage(ctx, o.out, o.placing, f, stderr)
	if err != nil {
		return err
	}
	defer s.discard()
	if packs {
		err = r.pack(f, s, o, stderr)
	} else {
		err = r.write(f, info, s, o, stderr)
	}
	if err != nil {
		return err
	}
	return s.publish()
}

// write makes the file of copies of the entries.
func (r *conversion) write(f *cachefile.File, info cachefile.Info, s *stage, o convertOptions, stderr io.Writer) error {
	layout, err := r.chooseLayout(info, o)
	if err != nil {
		return err
	}
	var keep func(cachefile.Entry) bool
	if layout != (cachefile.Digest{}) {
		r.Layout = layout.String()
		keep = func(e cachefile.Entry) bool { return e.Layout == layout }
	}
	progress := terminal.NewProgress(stderr, "copying")
	defer progress.Finish()
	return f.WriteFile(s.File.File, keep, cachefile.WriteOptions{Format: r.To, Layout: layout,
		Progress: progress.Update,
		LeftOut: func(e cachefile.Entry, err error) error {
			if errors.Is(err, cachefile.ErrDamaged) && !o.skipDamaged {
				return fmt.Errorf("%w; leave it out with --skip-damaged", err)
			}
			r.LeftOut = append(r.LeftOut, leftOut{e.Name, err.Error()})
			return nil
		}})
}

// chooseLayout returns the layout whose entries are taken, or zero for all.
func (r *conversion) chooseLayout(info cachefile.Info, o convertOptions) (cachefile.Digest, error) {
	switch {
	case o.layout != "":
		return selectLayout(r.File, info.Layouts, o.layout)
	case r.From != cachefile.Native || r.To == cachefile.Native:
		return cachefile.Digest{}, nil
	case len(info.Layouts) == 1:
		return info.Layouts[0].Fingerprint, nil
	}
	layout, err := selectLayout(r.File, info.Layouts, current)
	if err != nil && len(info.Layouts) > 0 {
		err = fmt.Errorf("%w; choose one with --layout", err)
	}
	return layout, err
}

// pack makes the file by packing the model, and counts what ExecuTorch's file has in the same bytes.
func (r *conversion) pack(f *cachefile.File, s *stage, o convertOptions, stderr io.Writer) error {
	name := s.byName()
	p, err := packInto(o.model, s.File.File, name, native, allJobs(), false, stderr)
	if err == nil {
		err = s.reopen(name)
	}
	if err != nil {
		return err
	}
	if n := p.Level.Private; n > 0 {
		r.LeftOut = append(r.LeftOut, leftOut{Why: fmt.Sprintf("%s of the model that the cache could not keep: %v",
			console.Plural(int(n), "entry"), p.Level.Reasons)})
	}
	return s.with(func(packed *cachefile.File) error {
		_, n, err := cachefile.Diff(f, packed)
		equal, entries := int64(n), int64(p.File.Entries)
		r.Adopted, r.Packed = &equal, &entries
		return err
	})
}

func (r *conversion) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s in %s, %s", r.Output, console.Plural(r.Entries, "entry"), console.Size(r.Bytes), r.To)
	if r.Layout != "" {
		fmt.Fprintf(w, ", of layout %s", r.Layout)
	}
	fmt.Fprintln(w)
	if r.Adopted != nil {
		fmt.Fprintf(w, "%d of the %s that ExecuTorch packed: the model is packed into the same bytes here; it has %s\n",
			*r.Adopted, console.Plural(r.Original, "entry"), console.Plural(int(*r.Packed), "entry"))
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "left out: %s\n", console.Printable(l.Why))
	}
}
