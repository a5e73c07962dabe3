package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/modelfile"
	"xpwc/models/described"
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

type packOptions struct {
	placing
	description string
	runtime     string // runtime that the file is for; "" for runtimes with this project's cache
	output      string
	levels      []string
	embed       bool
	sealed      bool
	align       int
	byContent   bool   // the output is a directory, and the file in it is named after what it has
	library     string // LiteRT's; "" for the installed one
}

func newPackCommand() *cobra.Command {
	var o packOptions
	var describe bool
	var signature string
	var shapes [][]int
	var targets []string
	cmd := &cobra.Command{
		Use:   "pack MODEL [DATA...] [-o FILE]",
		Short: "Pack a model's weights ahead of time",
		Long: fmt.Sprintf(`Packs the weights of a model into a cache file, when the model is built, installed or
deployed. A program that loads the model with that cache packs nothing. MODEL is a .tflite
file, a program of ExecuTorch (.pte; DATA are its .ptd files), or tensors: a .safetensors
file or the index of one, or a .ptd file.

Tensors need a description of the operators and datatypes that they are used with: a JSON
file, see go doc xpwc/models/described. --describe writes one to start from: what names, types
and shapes show. An op of "?" is to be decided before it can be used.

The packed weights suit CPUs for which XNNPACK chooses the same kernels as here. --cpu
packs for lesser CPUs of x86, for several into one file. --target packs for arm64 here,
with the real kernels under emulation (qemu-aarch64): a core such as cortex-a76 or x4, or
a feature of others: dotprod, i8mm. arm64 alone stands for one CPU of each kind that phones
have (for LiteRT, of each with dot products); xpwc layout --target arm64 lists which pack
alike.

FILE appears by a rename, when it is complete. Without -o it is in the current directory,
and named after MODEL. If it exists, its entries stay, and missing and damaged ones are
packed. For a program that has nothing to pack no file is written.

With --embed-beside, FILE is a safetensors file: the tensors of MODEL, which is one too,
the description, and the packed weights as the tensor %s.

With --sealed, FILE is read-only, complete for MODEL, and served by the reader in C too
(xpwc_reader.h), which needs the digest of MODEL that is printed.

With --for, FILE is for a stock runtime and for one CPU, and read-only. The runtime
compares neither the CPU nor who packed: on another kind of CPU it computes wrong numbers.

  executorch  ExecuTorch maps the file that its options weight_cache_enabled and
              packed_cache_path name. xpwc must have its XNNPACK, as an installed one has.
  litert      LiteRT maps the file that its option xnnpack_weight_cache_path names, which
              is for this MODEL only. Its own code packs, in the library of the package
              litert-lm-api. With --name-by-content FILE is a directory, the name in it
              says for which model, LiteRT and CPU the file is, and --cpu can name several.
  litert-lm   The engine of LiteRT-LM finds the file beside MODEL, a bundle, or in -o, which
              is a directory here. The name has MODEL's size and time: see xpwc place.

A bundle (.litertlm or .task) stands for all of its models, and BUNDLE#SECTION for one.`,
			safetensors.PackedName),
		Example: `  xpwc pack pose.tflite
  xpwc pack pose.tflite -o pose.xpwc --cpu avx2,avx512,native --json
  xpwc pack model.pte weights.ptd -o model.xpwc
  xpwc pack pose.tflite --sealed -o pose.xpwc
  xpwc pack model.pte --for executorch --cpu avx512vnni -o model.packed_cache
  xpwc pack pose.tflite --for litert --cpu avx2 -o pose.litert_cache
  xpwc pack pose.tflite --for litert --name-by-content -o models/
  xpwc pack model.pte --for executorch --target arm64:a76 -o phone.packed_cache
  xpwc pack pose.tflite --sealed --target arm64 -o phones.xpwc
  xpwc pack model.litertlm --for litert-lm
  xpwc pack model.safetensors --description operators.json -o model.xpwc
  xpwc pack model.safetensors --embed-beside -o packed.safetensors
  xpwc pack --describe model.safetensors -o operators.json`,
		Args: usage(modelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := modelfile.Parse(args[0])
			file.Description, file.Data, file.Method, file.Shapes = o.description, args[1:], signature, shapes
			if signature != "" && file.Program() {
				return usagef("--method of pack is for .tflite files; of %s all methods are packed", file.Path)
			}
			if describe {
				if err := onlyOutput(cmd); err != nil {
					return err
				}
				return describeTensors(file, o.output, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if o.output == "" {
				o.output = o.named(file)
			}
			if o.runtime == forLiteRT || o.runtime == forLiteRTLM {
				targets = litertTargets(targets)
			}
			levels, err := levelsOf(cmd, o.levels, targets)
			if err != nil {
				return err
			}
			o.levels = levels
			return packModel(cmd.Context(), file, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "",
		"cache `FILE` to write or add to, by default named after MODEL; of --describe a new one")
	f.StringSliceVar(&o.levels, "cpu", []string{native}, "CPU `LEVEL`s to pack for: "+levelNames())
	targetFlag(cmd, &targets, "to pack for")
	f.StringVar(&o.runtime, "for", "", "write a file for a stock `RUNTIME`: executorch, litert or litert-lm")
	f.BoolVar(&o.byContent, "name-by-content", false, "of --for litert: FILE is a directory, and names what is in it")
	libraryFlag(cmd, &o.library)
	descriptionFlag(cmd, &o.description)
	f.StringVar(&signature, "method", "", "`NAME` of the only signature of a .tflite to pack (default all)")
	shapeFlag(cmd, &shapes)
	o.placing.flags(cmd)
	f.BoolVar(&describe, "describe", false, "pack nothing, and write a description of tensors to start from")
	f.BoolVar(&o.sealed, "sealed", false, "write a read-only file of this model alone, for the reader in C too")
	f.BoolVar(&o.embed, "embed-beside", false, "write a safetensors file with MODEL's tensors and the packed weights")
	f.IntVar(&o.align, "align", safetensors.EverySystem,
		"offset of embedded packed weights in the file, a multiple of `N`; the default suits every system")
	jsonFlag(cmd)
	return cmd
}

func packModel(ctx context.Context, model modelfile.File, o packOptions) (err error) {
	if err := errors.Join(o.check(), checkModel(model)); err != nil {
		return err
	}
	switch o.runtime {
	case forLiteRT:
		return packLiteRT(ctx, model, o)
	case forLiteRTLM:
		return packLiteRTLM(ctx, model, o)
	}
	var stock *stockFile
	if o.runtime != "" {
		if stock, err = o.stockFile(model); err != nil {
			return err
		}
	}
	weights, err := model.OpenAllWeights() // for its errors, before anything is made
	defer func() {
		for _, w := range weights {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return err
	}
	m := weights[0]
	if stock != nil {
		if err := checkStockRuns(m); err != nil {
			return err
		}
	}
	s, err := newPendingOutput(ctx, o.output, o.placing, model.Files()...)
	if err != nil {
		return err
	}
	defer s.discard()
	var output packOutput
	switch {
	case stock != nil:
		stock.Replaced = stock.packedFor.replacedBy(s.path)
		output, err = stockOutput{s, stock}, s.replace(onlyCaches)
	case o.sealed:
		output, err = newSealing(s, model)
	case o.embed:
		output, err = newEmbedding(s, m, o.align)
	default:
		output, err = cacheOutput{s}, s.addToCache()
	}
	if err != nil {
		return err
	}
	report := &packReport{Model: model.String(), Output: o.output, Levels: []packedLevel{}}
	if err := report.pack(output, model, s, o); err != nil {
		return err
	}
	report.LeftOut = s.damaged
	setResult(ctx, report)
	return nil
}

// pack makes the output.
func (r *packReport) pack(output packOutput, model modelfile.File, s *pendingOutput, o packOptions) error {
	var written int64
	for _, level := range o.levels {
		l, err := s.packLevel(packJob{Model: model, CPU: level, Stock: o.runtime == forExecuTorch})
		if err != nil {
			return fmt.Errorf("%w; nothing was written to %s", err, r.Output)
		}
		if l.nothing() && model.Program() {
			r.Nothing = "it has no weights that XNNPACK packs through a cache"
			return nil
		}
		if l.nothing() {
			return fmt.Errorf("%s has no weights that XNNPACK packs through a cache; nothing was written to %s",
				r.Model, r.Output)
		}
		written += l.Written
		r.Levels = append(r.Levels, *l)
	}
	if o.runtime == "" && !o.sealed && written > 0 {
		// A rewritten file was written in large pieces, so it takes fewer page faults to map than one packed through a
		// mapping. Equal payloads of several layouts become one copy, since each level was packed alone, and dead
		// bytes are dropped.
		if err := s.rewrite("copying", cachefile.WriteOptions{}); err != nil {
			return err
		}
	}
	if err := r.measure(s.newFile); err != nil {
		return err
	}
	return output.finish(written > 0, r)
}

// stockFile returns the file that is to be written for the stock runtime, after checking that it can be.
func (o *packOptions) stockFile(model modelfile.File) (*stockFile, error) {
	switch {
	case !model.Program():
		return nil, usagef("--for %s is for programs, whose names end in .pte, not for %s", o.runtime, model)
	case o.embed:
		return nil, usagef("--for and --embed-beside exclude each other")
	case len(o.levels) > 1:
		return nil, usagef("--for %s: a file has the packed weights of one CPU, and %d are named; "+
			"write a file for each", o.runtime, len(o.levels))
	}
	f, err := newStockFile(o.runtime, o.levels[0])
	if err == nil {
		f.packedFor, err = newPackedFor(model, o.levels[0])
	}
	return f, err
}

// extensions are the extensions of output files without a given name, by stock runtime.
var extensions = map[string]string{"": ".xpwc", forExecuTorch: ".packed_cache", forLiteRT: ".litert_cache"}

// named is the default output: a file in the current directory named after the model; "" if the name is ambiguous.
func (o *packOptions) named(model modelfile.File) string {
	name := model.Base()
	if o.runtime == forLiteRTLM {
		return filepath.Dir(model.Path)
	}
	if o.embed || o.byContent || strings.Trim(name, "./") == "" {
		return ""
	}
	return name + extensions[o.runtime]
}

func (o *packOptions) check() error {
	if o.output == "" && o.byContent {
		return usagef("-o FILE is missing; -o . names a file in this directory")
	}
	if o.output == "" {
		return usagef("-o FILE is missing, for instance -o packed.safetensors")
	}
	if !slices.Contains([]string{forLiteRT, forLiteRTLM}, o.runtime) && (o.byContent || o.library != "") {
		return usagef("--name-by-content and --litert-lm are for --for litert")
	}
	if o.align < 1 || o.align > 64<<20 || o.align&(o.align-1) != 0 {
		return usagef("--align %d: must be a power of two up to %d", o.align, 64<<20)
	}
	if o.sealed && (o.embed || o.runtime != "") {
		return usagef("--sealed excludes --embed-beside and --for")
	}
	return nil
}

func levelNames() string { return strings.Join(xnnpack.CPULevels(), ", ") }

func checkLevel(level string) error {
	if isTarget(level) {
		return nil // parseTarget made it
	}
	if !slices.Contains(xnnpack.CPULevels(), level) {
		return usagef("--cpu %s: known are %s", level, levelNames())
	}
	return nil
}

func (r *packReport) print(w io.Writer) {
	if r.Nothing != "" {
		fmt.Fprintf(w, "note: %s: %s; nothing was written to %s, and it needs no cache\n",
			r.Model, r.Nothing, r.Output)
		return
	}
	for _, f := range r.LiteRT {
		f.print(w)
	}
	if len(r.WithoutCache) > 0 {
		fmt.Fprintf(w, "note: LiteRT-LM keeps no packed weights of %s\n",
			console.Printable(strings.Join(r.WithoutCache, ", ")))
	}
	if len(r.LiteRT) > 0 {
		return
	}
	var t console.Table
	t.Row("", "layout", "entries packed", "bytes packed", "found in the file", "packed again, found equal",
		"in private memory", "time")
	for _, l := range r.Levels {
		t.Row(l.CPU, l.Layout[:shortLayout], fmt.Sprint(l.Packed), console.Size(l.PackedBytes), fmt.Sprint(l.Hits),
			fmt.Sprint(l.Reused), execution.PrivateCell(l.Private, l.Reasons), console.MS(l.TotalMS))
	}
	t.Transposed().Print(w)
	if r.For != nil {
		r.For.print(w, r.Output, "--cpu names others")
		return
	}
	fmt.Fprintf(w, "\n%s: %d entries, %s packed, %s in all\n",
		r.Output, r.Entries, console.Size(r.PayloadBytes), console.Size(r.FileBytes))
	if r.Sealed != "" {
		fmt.Fprintf(w, "sealed for the model %s\n", r.Sealed)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "note: %s had a wrong checksum and %s left out; what the model has of them was packed again\n",
			console.Plural(r.LeftOut, "entry"), oneOrMany(r.LeftOut, "was", "were"))
	}
	if e := r.Embedded; e != nil {
		fmt.Fprintf(w, "embedded at byte %d of a file of %s\n", e.Offset, console.Size(e.FileBytes))
	}
}

// onlyOutput checks that --describe is given with -o alone.
func onlyOutput(cmd *cobra.Command) error {
	for _, name := range []string{"description", "cpu", "target", "for", "mode", "embed-beside", "align", "json"} {
		if cmd.Flags().Changed(name) {
			return usagef("--describe packs nothing, and --%s does not go with it", name)
		}
	}
	return nil
}

// describeTensors writes a first description, to a new file or to stdout, and prints what the user must complete.
func describeTensors(model modelfile.File, path string, stdout, stderr io.Writer) (err error) {
	if !model.Described() {
		return usagef("--describe is for tensors (.safetensors or an index, .ptd), not for %s",
			model.Path)
	}
	tensors, err := described.OpenTensors(model.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tensors.Close()) }()
	operators := described.Describe(tensors)
	if len(operators) == 0 {
		return fmt.Errorf("%s has no tensors", model.Path)
	}
	text, err := described.Format(operators)
	if err != nil {
		return err
	}
	if err := writeNew(path, escapeJSON(text), stdout); err != nil {
		return err
	}
	damaged := 0
	for _, o := range operators {
		if o.Op == described.LeftOut {
			damaged++
		}
	}
	_, err = fmt.Fprintf(stderr, "note: %s, and %s left out; see \"note\" and \"assumed\"\n",
		console.Plural(len(operators)-damaged, "operator"), console.Plural(damaged, "tensor"))
	return err
}

// writeNew writes a file that must not exist, or writes to stdout if the path is empty.
func writeNew(path string, text []byte, stdout io.Writer) error {
	if path == "" {
		_, err := stdout.Write(text)
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return leftAsItIs(fmt.Errorf("%s exists", path))
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// packLiteRT writes the files for the stock runtime of LiteRT, one for each level.
func packLiteRT(ctx context.Context, model modelfile.File, o packOptions) error {
	if err := checkLiteRTModel(model); err != nil {
		return err
	}
	if o.embed {
		return usagef("--for and --embed-beside exclude each other")
	}
	if len(o.levels) > 1 && !o.byContent {
		return usagef("--for %s: a file has the packed weights of one CPU, and %d are named; "+
			"give --name-by-content, and a directory", o.runtime, len(o.levels))
	}
	r := &packReport{Model: model.String(), Output: o.output, Levels: []packedLevel{}}
	for _, level := range o.levels {
		packer, err := newLiteRTPacker(o.library, level)
		if err != nil {
			return err
		}
		origin, err := newPackedFor(model, level)
		if err != nil {
			return err
		}
		path := o.output
		if o.byContent {
			path = filepath.Join(path, packer.nameFor(model, origin))
		}
		f, err := packer.write(ctx, path, origin, o.placing)
		if err != nil {
			return fmt.Errorf("%w\nnothing was written to %s", err, path)
		}
		if f == nil {
			r.Nothing = "it has no weights that LiteRT's XNNPACK packs"
			break
		}
		r.addLiteRT(f)
		r.PackedFor = origin
	}
	setResult(ctx, r)
	return nil
}
