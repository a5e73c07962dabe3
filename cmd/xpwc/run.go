package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
	"xpwc/internal/output"
	"xpwc/models"
	"xpwc/models/described"
	"xpwc/models/executorch"
	"xpwc/models/npy"
	"xpwc/models/safetensors"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

type runOptions struct {
	cache, outputDir string
	cpu              string
	inputs           []string
	threads          int
}

func newRunCommand() *cobra.Command {
	var o runOptions
	var model modelfile.File
	cmd := &cobra.Command{
		Use:   "run MODEL [DATA...]",
		Short: "Run a model once",
		Long: `Runs a .tflite model or a program of ExecuTorch (.pte) once. Prints how long it took, what
the cache did, and the checksums of the outputs. Of tensors (.safetensors, .ptd) it
runs each operator of the description (go doc xpwc/models/described) by itself. Packed
weights in a safetensors file are used, unless --cache is given.

Of a .pte one method is run: its delegates for XNNPACK, and the operators between them that
XNNPACK or xpwc has; the error lists others. DATA are its .ptd files. Dynamic inputs have
the shapes of their .npy files, and otherwise the largest ones: see xpwc inspect.

--input is given once for each input, in the order of the model: a raw file, little-endian,
or a NumPy file (.npy).
A .tflite whose inputs may have other shapes takes those of .npy files. The numbers are of
the type that the model declares (bfloat16 in a .npy as its bits, uint16). Without --input
they are made of h = uint32(i*2654435761): floats are h/2^32 (float16 has 11 bits of it),
integers of 8 and 16 bits h>>24, longer ones, which may be ids, and booleans h>>31. With
--output-dir, output k is written to output_<k>.f32, raw, or .f16, .bf16, .i8, .u8, .i32.

Exits with 0 when the model has run, even if the cache could not be saved: then a note on
standard error says so. If the disk may have lost weights that were computed with, no
output is given; the next run packs again.`,
		Example: `  xpwc run pose_landmark_lite.tflite --cache pose.xpwc
  xpwc run model.tflite --input image.npy
  xpwc run model.pte weights.ptd --method encode --cache model.xpwc
  xpwc run model.tflite --input image.f32 --output-dir out --json`,
		Args: usage(modelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			model.Path, model.Section = modelfile.Split(args[0])
			model.Data = args[1:]
			return runModel(cmd.Context(), model, o)
		},
	}
	f := cmd.Flags()
	descriptionFlag(cmd, &model.Description)
	methodFlag(cmd, &model.Method)
	shapeFlag(cmd, &model.Shapes)
	f.StringVar(&o.cache, "cache", "", "cache `FILE` of packed weights, created if it is not there")
	f.StringArrayVar(&o.inputs, "input", nil, "`FILE` of an input, raw or .npy; given once for each")
	f.StringVar(&o.outputDir, "output-dir", "", "`DIR` to write the outputs to, created if it is not there")
	threadsFlag(cmd, &o.threads)
	f.StringVar(&o.cpu, "cpu", native, "CPU `LEVEL` to compute for, as a lesser CPU would: "+levelNames())
	jsonFlag(cmd)
	return cmd
}

// runReport is the result of xpwc run.
type runReport struct {
	Model            string                 `json:"model"`
	Threads          int                    `json:"threads"`
	OpenCacheMS      float64                `json:"open_cache_ms"`
	LoadMS           float64                `json:"load_ms"`
	CreateRuntimeMS  float64                `json:"create_runtime_ms"`
	FinalizeMS       float64                `json:"finalize_ms"`
	TotalLoadMS      float64                `json:"total_load_ms"`
	FirstInferenceMS float64                `json:"first_inference_ms"`
	Cache            *execution.CacheReport `json:"cache,omitempty"`
	Outputs          []outputFile           `json:"outputs"`

	inputs []string // name, type and shape of each
}

type outputFile struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // NumPy's name, or bfloat16
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"`
	File   string `json:"file,omitempty"`

	beginning []string // the first numbers
}

func runModel(ctx context.Context, file modelfile.File, o runOptions) (err error) {
	if err := checkThreads(o.threads); err != nil {
		return err
	}
	if err := errors.Join(checkModel(file), checkLevel(o.cpu)); err != nil {
		return err
	}
	if err := xnnpack.LimitCPU(o.cpu); err != nil {
		return err
	}
	m, err := openFor(file, o.inputs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	progress := newProgress(ctx, "packing")
	// A single run ends before the cache would verify in the background.
	show := func(p xpwc.Progress) { progress.Update(p.Done, p.Total) }
	options := &xpwc.Options{Progress: show, Verify: xpwc.VerifyOnUse}
	var packed instance.Backing
	packed, o.cache = backingOf(m, file, o.cache, options)
	j := jobOf(ctx)
	j.waitFor("")
	e, err := instance.New(m, packed, o.threads)
	progress.Finish()
	if err != nil {
		return err
	}
	var saveErr error
	ran := false
	defer func() {
		if closeErr := e.Close(); !ran {
			err = errors.Join(err, closeErr)
		} else if unsaved := cmp.Or(closeErr, saveErr); unsaved != nil {
			noteUnsaved(j.stderr, o.cache, unsaved)
		}
	}()
	if e.Cache != nil && e.Cache.Stats().Packed.Entries > 0 {
		j.waitFor(fmt.Sprintf("no output was written; %s keeps what was packed", o.cache))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(o.inputs) > 0 {
		err = readInputs(e, o.inputs)
	} else {
		err = execution.FillKnuth(e)
	}
	if err != nil {
		return err
	}
	first, err := e.Infer()
	if e.Cache != nil { // only the flush shows whether the disk lost weights of this run
		saveErr = e.Cache.Save()
		err = cmp.Or(err, e.Err())
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	report := &runReport{
		Model:            file.String(),
		Threads:          1,
		OpenCacheMS:      console.Milliseconds(e.Times.Open),
		LoadMS:           console.Milliseconds(e.Times.Load),
		CreateRuntimeMS:  console.Milliseconds(e.Times.Create),
		FinalizeMS:       console.Milliseconds(e.Times.Finalize),
		TotalLoadMS:      console.Milliseconds(e.Times.Total()),
		FirstInferenceMS: console.Milliseconds(first),
	}
	if e.Pool != nil {
		report.Threads = e.Pool.Threads()
	}
	for _, v := range e.Model.Inputs() {
		report.inputs = append(report.inputs, typedName(v.Name, execution.ElementOf(v).String())+" "+shapeText(v.Shape))
	}
	if err := j.place(func() error { report.Outputs, err = writeOutputs(e, o.outputDir); return err }); err != nil {
		return err
	}
	ran = true
	if e.Cache != nil {
		stats := e.Cache.Stats()
		report.Cache = execution.ReportCache(o.cache, stats)
		if n, reason := unsaved(stats); n > 0 {
			noteUnsaved(j.stderr, o.cache, fmt.Errorf("%s in private memory: %s", console.Plural(int(n), "entry"),
				reason))
		}
	}
	setResult(ctx, report)
	return nil
}

// backingOf returns where a model's packed weights are, and that file's path: a cache; without one, a safetensors file
// with both packed and unpacked weights; or memory, without a path.
func backingOf(m models.Model, file modelfile.File, cache string, o *xpwc.Options) (instance.Backing, string) {
	if d, ok := m.(*described.Model); ok && d.File() != nil && cache == "" {
		if _, ok := d.File().Lookup(safetensors.PackedName); ok {
			return execution.PackedBeside(d.File(), o), file.Path
		}
	}
	return execution.PackedIn(cache, o), cache
}

// unsaved counts the entries missing in the file, and returns the reason.
func unsaved(s xpwc.Stats) (entries int64, reason string) {
	readOnly := s.Private[xpwc.ReasonReadOnly].Entries
	entries = readOnly + s.Private[xpwc.ReasonDisk].Entries + s.Private[xpwc.ReasonBusy].Entries
	switch {
	case s.LastError != nil:
		reason = explain(s.LastError)
	case readOnly > 0:
		reason = "the file or its directory cannot be written to"
	default:
		reason = xpwc.ErrBusy.Error()
	}
	return entries, reason
}

// noteUnsaved prints that the model has run, and will be packed again the next time.
func noteUnsaved(stderr io.Writer, cache string, err error) {
	fmt.Fprintf(stderr, "note: the cache %s could not be saved completely: %v\n", cache, err)
}

// shownNumbers is how many of an output are printed.
const shownNumbers = 6

func writeOutputs(e *instance.Instance, dir string) ([]outputFile, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	var files []outputFile
	for i, v := range e.Model.Outputs() {
		b, shape, err := e.Output(i)
		if err != nil {
			return nil, err
		}
		sum, element := sha256.Sum256(b), execution.ElementOf(v)
		f := outputFile{Name: v.Name, Type: element.String(), Shape: shape, SHA256: hex.EncodeToString(sum[:])}
		f.beginning = numbers(element, b)
		if dir != "" {
			f.File = filepath.Join(dir, fmt.Sprintf("output_%d.%s", i, element.Extension))
			if err := writeOutput(f.File, b); err != nil {
				return nil, err
			}
		}
		files = append(files, f)
	}
	return files, nil
}

// writeOutput writes a file that others may read. A link at the path is replaced and not followed: it may be another
// user's.
func writeOutput(path string, b []byte) error {
	f, err := output.New(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Publish(f.Usual())
}

func (r *runReport) print(w io.Writer) {
	var t console.Table
	if r.Cache != nil {
		t.Row("open cache", console.MS(r.OpenCacheMS))
	}
	t.Row("load tensors", console.MS(r.LoadMS))
	t.Row("create runtime", console.MS(r.CreateRuntimeMS))
	t.Row("finalize", console.MS(r.FinalizeMS))
	t.Row("total load", console.MS(r.TotalLoadMS))
	t.Row("first inference", console.MS(r.FirstInferenceMS))
	if c := r.Cache; c != nil {
		t.Row("entries found", fmt.Sprint(c.Hits))
		t.Row("entries packed", fmt.Sprint(c.Packed))
		t.Row("packed again, found equal", fmt.Sprint(c.Reused))
		t.Row("entries in private memory", execution.PrivateCell(c.Private, c.Reasons))
		t.Row("reasons for packing, reading and waiting", execution.SlowCell(c.Slow))
		t.Row("written to the file", console.Size(c.BytesWritten))
		t.Row("file size", console.Size(c.FileBytes))
	}
	t.Print(w)
	if r.Cache != nil {
		for _, note := range r.Cache.Notes {
			fmt.Fprintf(w, "note: cache %s: %s\n", r.Cache.File, note)
		}
	}
	fmt.Fprintln(w)
	for i, in := range r.inputs {
		fmt.Fprintf(w, "input %d  %s\n", i, in)
	}
	for i, o := range r.Outputs {
		fmt.Fprintf(w, "output %d  %s %s\n", i, typedName(o.Name, o.Type), shapeText(o.Shape))
		fmt.Fprintf(w, "   %s\n   sha256 %s\n", strings.Join(o.beginning, "  "), o.SHA256)
		if o.File != "" {
			fmt.Fprintf(w, "   written to %s\n", o.File)
		}
	}
}

// typedName is a value's name as a line can have it, with its type unless that is the usual one.
func typedName(name, element string) string {
	name = console.Printable(name)
	if element == "float32" {
		return name
	}
	return name + " " + element
}

// numbers writes the first numbers of an output.
func numbers(element *execution.Element, b []byte) []string {
	var words []string
	for ; len(b) > 0; b = b[element.Size():] {
		if len(words) == shownNumbers {
			return append(words, "…")
		}
		words = append(words, element.Text(b))
	}
	return words
}

// openFor opens a model for inputs of these files. Shapes that a .tflite leaves open are taken from .npy files, if none
// were given.
func openFor(file modelfile.File, paths []string) (models.Model, error) {
	shaped := file
	if file.Shapes == nil {
		shaped.Shapes = make([][]int, len(paths))
	}
	for i, path := range paths {
		if file.Shapes == nil && isNumPy(path) {
			a, err := readArray(path)
			if err != nil {
				return nil, err
			}
			shaped.Shapes[i] = a.Shape
		}
	}
	m, err := shaped.Open()
	if file.Shapes == nil && errors.Is(err, tflite.ErrShape) {
		m, err = file.Open() // the reader of the files names the one that does not fit
	}
	if errors.Is(err, executorch.ErrUnknownMethod) || errors.Is(err, tflite.ErrUnknownSignature) {
		err = fmt.Errorf("%w; choose one with --method", err)
	}
	return m, err
}

func readArray(path string) (a safetensors.Tensor, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if a, err = npy.Read(content); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readInputs fills the inputs, each from a file.
func readInputs(e *instance.Instance, paths []string) error {
	if len(paths) != len(e.Inputs) {
		var values []string
		for i := range e.Inputs {
			values = append(values, describe(e, i))
		}
		return usagef("--input is given %s for %s: %s", console.Plural(len(paths), "file"),
			console.Plural(len(values), "input"), strings.Join(values, "; "))
	}
	contents, shapes := make([][]byte, len(paths)), make([][]int, len(paths))
	for i, path := range paths {
		read := readRaw
		if isNumPy(path) {
			read = readNumPy
		}
		var err error
		if contents[i], shapes[i], err = read(e, i, path); err != nil {
			return err
		}
	}
	if err := e.ShapeInputs(shapes); err != nil {
		return err
	}
	for i, content := range contents {
		if err := e.Give(i, content); err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
	}
	return nil
}

func isNumPy(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npy") }

// readNumPy reads input i and its shape from a .npy file of its type; dimensions of 1 are ignored unless the input is
// dynamic.
func readNumPy(e *instance.Instance, i int, path string) (content []byte, shape []int, err error) {
	a, err := readArray(path)
	if err != nil {
		return nil, nil, err
	}
	v := e.Model.Inputs()[i]
	element := execution.ElementOf(v)
	if a.Dtype != element.Dtype {
		return nil, nil, fmt.Errorf("%s: its elements are %s, but the model takes %s; save it as %s",
			path, a.Dtype, describe(e, i), saving(element))
	}
	if slices.Equal(squeezed(a.Shape), squeezed(v.Shape)) {
		return a.Data, v.Shape, nil
	}
	if !v.Dynamic || !within(a.Shape, v.Shape) {
		return nil, nil, fmt.Errorf("%s: its shape is %v, but the model takes %s", path, a.Shape, describe(e, i))
	}
	return a.Data, a.Shape, nil
}

// within reports whether no dimension of a shape is larger than in another.
func within(shape, largest []int) bool {
	if len(shape) != len(largest) {
		return false
	}
	for d, n := range shape {
		if n < 1 || n > largest[d] {
			return false
		}
	}
	return true
}

// saving describes how an array is converted to an element.
func saving(e *execution.Element) string {
	if e.Element == models.BFloat16 {
		return "its bits, x.view(numpy.uint16)"
	}
	return "x.astype(numpy." + strings.Replace(e.String(), "bool", "bool_", 1) + ")"
}

func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
}

// readRaw reads input i, in its largest shape, from a file of little-endian numbers.
func readRaw(e *instance.Instance, i int, path string) (content []byte, shape []int, err error) {
	size := e.InputBytes(i)
	// A file of another size, which may be no regular file, is not read whole.
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	content, err = io.ReadAll(io.LimitReader(f, int64(size)+1))
	if err != nil {
		return nil, nil, err
	}
	if n := len(content); n < size {
		return nil, nil, fmt.Errorf("%s has %d bytes, but the model takes %d: %s", path, n, size, describe(e, i))
	} else if n > size {
		return nil, nil, fmt.Errorf("%s has more than the %d bytes that the model takes: %s", path, size,
			describe(e, i))
	}
	return content, e.Model.Inputs()[i].Shape, nil
}

// describe names an input's type and shape.
func describe(e *instance.Instance, i int) string {
	v := e.Model.Inputs()[i]
	text := fmt.Sprintf("%s %s %v", execution.ElementOf(v), v.Name, v.Shape)
	if q := v.Quantization; q.Scale != 0 {
		text += fmt.Sprintf(", scale %g, zero point %d", q.Scale, q.ZeroPoint)
	}
	if v.Dynamic {
		text += ", or in a .npy a smaller shape"
	}
	return text
}
