package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/models"
	"xpwc/models/executorch"
)

// programReport is the result of xpwc inspect of a program.
type programReport struct {
	File        string         `json:"file"`
	Data        []string       `json:"data,omitempty"` // .ptd files
	Methods     []methodReport `json:"methods"`
	WeightCount int            `json:"weight_count"`
	WeightBytes int64          `json:"weight_bytes"`
	Weights     []weightReport `json:"weights"`
}

type methodReport struct {
	Name      string           `json:"name"`
	Delegates int              `json:"delegates"`
	Runnable  bool             `json:"runnable"`
	Reason    string           `json:"not_runnable_because,omitempty"`
	Inputs    []valueReport    `json:"inputs,omitempty"`
	Outputs   []valueReport    `json:"outputs,omitempty"`
	Operators []operatorReport `json:"operators"`
	// Returns are the numbers of a method that only returns some.
	Returns []any `json:"returns,omitempty"`
}

type valueReport struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Shape   []int  `json:"shape"`
	Dynamic bool   `json:"dynamic,omitempty"`
	// DynamicDims are the dimensions of an input that may be smaller than in its shape.
	DynamicDims []int `json:"dynamic_dims,omitempty"`
}

type operatorReport struct {
	Name     string `json:"name"`
	Count    int    `json:"count"`
	Location string `json:"where"`
}

type weightReport struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int64  `json:"bytes"`
	File  string `json:"file"`
}

// whereNames are the words for where an operator is.
var whereNames = map[executorch.Where]string{
	executorch.InDelegate: "delegate", executorch.Between: "between", executorch.Outside: "outside",
}

// refuseFlags refuses flags of inspect that the file is not for.
func refuseFlags(cmd *cobra.Command, path string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is not for the model %s", name, path)
		}
	}
	return nil
}

func inspectProgram(ctx context.Context, file modelfile.File, o inspectOptions) (err error) {
	p, err := file.OpenProgram()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	setResult(ctx, reportProgram(p, file, o))
	return nil
}

func reportProgram(p *executorch.Program, file modelfile.File, o inspectOptions) *programReport {
	r := &programReport{File: file.Path, Data: file.Data, Weights: []weightReport{}}
	for _, m := range p.Methods() {
		r.Methods = append(r.Methods, reportMethod(m))
	}
	for _, c := range p.Constants() {
		if c.Bytes == 0 {
			continue // it is in no file: an operator fills it
		}
		r.WeightCount++
		r.WeightBytes += c.Bytes
		if strings.Contains(c.Name, o.filter) {
			shape := append([]int{}, c.Shape...) // not null, of a scalar
			r.Weights = append(r.Weights, weightReport{c.Name, c.Type.String(), shape, c.Bytes, c.Path})
		}
	}
	return r
}

func reportMethod(m *executorch.Method) methodReport {
	r := methodReport{Name: m.Name(), Delegates: m.Delegates(), Operators: []operatorReport{}, Returns: m.Metadata()}
	err := m.Runnable()
	if r.Runnable = err == nil; !r.Runnable {
		r.Reason = err.Error()
	}
	for _, o := range m.Operators() {
		r.Operators = append(r.Operators, operatorReport{o.Name, o.Count, whereNames[o.Place]})
	}
	r.Inputs, r.Outputs = reportValues(m.Inputs()), reportValues(m.Outputs())
	if slices.ContainsFunc(r.Inputs, func(v valueReport) bool { return v.Dynamic }) {
		for i, dims := range m.DynamicDims() {
			r.Inputs[i].DynamicDims = dims
		}
	}
	return r
}

func reportValues(values []models.Value) (reports []valueReport) {
	for _, v := range values {
		kind := v.Type.String()
		if v.Widened() {
			kind = fmt.Sprintf("%v, converted to %s", v.Declared, kind)
		} else if v.Declared != 0 {
			kind = v.Declared.String()
		}
		reports = append(reports, valueReport{Name: v.Name, Type: kind, Shape: v.Shape, Dynamic: v.Dynamic})
	}
	return reports
}

func (v *valueReport) print(w io.Writer) {
	var dims []string
	for d, n := range v.Shape {
		text := fmt.Sprint(n)
		if slices.Contains(v.DynamicDims, d) {
			text = "1.." + text
		}
		dims = append(dims, text)
	}
	limit := ""
	if v.Dynamic && v.DynamicDims == nil {
		limit = " at most"
	}
	fmt.Fprintf(w, "%s: %s [%s]%s\n", console.Printable(v.Name), v.Type, strings.Join(dims, "x"), limit)
}

func (r *programReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s: ExecuTorch's program, %s, %s of %s\n", r.File, console.Plural(len(r.Methods), "method"),
		console.Plural(r.WeightCount, "weight"), console.Size(r.WeightBytes))
	for _, m := range r.Methods {
		m.print(w)
	}
	fmt.Fprintln(w)
	if len(r.Weights) == 0 {
		fmt.Fprintln(w, "No weights to show.")
		return
	}
	r.printWeights(w)
}

func (m *methodReport) print(w io.Writer) {
	if m.Returns != nil {
		fmt.Fprintf(w, "\nmethod %s returns %s\n", console.Printable(m.Name), strings.Trim(fmt.Sprint(m.Returns), "[]"))
		return
	}
	fmt.Fprintf(w, "\nmethod %s: %s, ", console.Printable(m.Name), console.Plural(m.Delegates, "delegate"))
	if m.Runnable {
		fmt.Fprintln(w, "can be run here")
	} else {
		fmt.Fprintln(w, "can be packed here, not run:")
		for reason := range strings.SplitSeq(m.Reason, "\n") {
			fmt.Fprintln(w, console.Printable(reason))
		}
	}
	for _, v := range slices.Concat(m.Inputs, m.Outputs) {
		v.print(w)
	}
	fmt.Fprintln(w)
	var t console.Table
	t.Row("operator", "count", "where")
	for _, o := range m.Operators {
		t.Row(console.Printable(o.Name), fmt.Sprint(o.Count), o.Location)
	}
	t.Print(w)
}

func (r *programReport) printWeights(w io.Writer) {
	var t console.Table
	t.Row("weight", "size", "type", "shape", "file")
	var size int64
	for _, c := range r.Weights {
		size += c.Bytes
		t.Row(console.Printable(c.Name), console.Size(c.Bytes), c.Type, shapeText(c.Shape),
			cell(len(r.Data) > 0, filepath.Base(c.File)))
	}
	t.LeaveOutEmpty()
	t.Fit(terminal.Width(w))
	t.Print(w)
	if len(r.Weights) < r.WeightCount {
		fmt.Fprintf(w, "\n%s of %d, %s.\n", console.Plural(len(r.Weights), "weight"), r.WeightCount, console.Size(size))
	}
}

func shapeText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", "x") }

// cell returns a table's cell, empty unless show is set.
func cell(show bool, text string) string {
	if show {
		return text
	}
	return console.Blank
}

type inspectOptions struct {
	sort, filter string
	check, drawn bool
}
