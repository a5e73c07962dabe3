package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/models/tflite"
)

// modelReport is the result of xpwc inspect of a .tflite file.
type modelReport struct {
	File       string            `json:"file"`
	Signatures []signatureReport `json:"signatures"`
}

// signatureReport is one of a model's signatures; without a name it is the main subgraph of a model that has none.
type signatureReport struct {
	Name        string        `json:"name,omitempty"`
	Runnable    bool          `json:"runnable"`
	Reason      string        `json:"not_runnable_because,omitempty"`
	Inputs      []valueReport `json:"inputs,omitempty"`
	Outputs     []valueReport `json:"outputs,omitempty"`
	WeightBytes int64         `json:"weight_bytes"` // unpacked; signatures may share them
}

// isTFLite reports whether a file has the identifier of TensorFlow Lite's models, whatever its name is: a cache file
// may be called so.
func isTFLite(path string) bool {
	f, _, err := fd.OpenRegular(path)
	if err != nil {
		return false // the code that opens it next returns the error
	}
	defer f.Close()
	head := make([]byte, 8)
	_, err = f.ReadAt(head, 0)
	return err == nil && string(head[4:]) == "TFL3"
}

// inspectModel describes each signature of a .tflite file, for inputs of these shapes.
func inspectModel(ctx context.Context, path string, shapes [][]int) error {
	names, err := tflite.Signatures(path)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{""}
	}
	r := &modelReport{File: path}
	for _, name := range names {
		r.Signatures = append(r.Signatures, reportSignature(path, name, shapes))
	}
	setResult(ctx, r)
	return nil
}

func reportSignature(path, name string, shapes [][]int) signatureReport {
	m, err := tflite.Open(path, &tflite.Options{Signature: name, Shapes: shapes})
	if err != nil {
		return signatureReport{Name: name, Reason: explain(err)}
	}
	defer m.Close()
	return signatureReport{Name: name, Runnable: true, Inputs: reportValues(m.Inputs()),
		Outputs: reportValues(m.Outputs()), WeightBytes: m.WeightBytes()}
}

func (r *modelReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s: a model of TensorFlow Lite, %s\n", r.File, console.Plural(len(r.Signatures), "signature"))
	for _, s := range r.Signatures {
		fmt.Fprintln(w)
		if s.Name != "" {
			fmt.Fprintf(w, "signature %s: ", console.Printable(s.Name))
		}
		if !s.Runnable {
			fmt.Fprintln(w, "cannot be run:")
			fmt.Fprintln(w, printableLines(s.Reason))
			continue
		}
		fmt.Fprintf(w, "can be run, %s of weights\n", console.Size(s.WeightBytes))
		for _, v := range slices.Concat(s.Inputs, s.Outputs) {
			v.print(w)
		}
	}
}
