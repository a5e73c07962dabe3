package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/console"
	"xpwc/tflite"
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

// isTFLite reports whether a path names a model of TensorFlow Lite.
func isTFLite(path string) bool { return strings.EqualFold(filepath.Ext(path), ".tflite") }

// inspectModel describes each signature of a .tflite file.
func inspectModel(ctx context.Context, path string) error {
	names, err := tflite.Signatures(path)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{""}
	}
	r := &modelReport{File: path}
	for _, name := range names {
		r.Signatures = append(r.Signatures, reportSignature(path, name))
	}
	setResult(ctx, r)
	return nil
}

func reportSignature(path, name string) signatureReport {
	m, err := tflite.Open(path, &tflite.Options{Signature: name})
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
			fmt.Fprintln(w, "cannot be run here:")
			fmt.Fprintln(w, printableLines(s.Reason))
			continue
		}
		fmt.Fprintf(w, "can be run here, %s of weights\n", console.Size(s.WeightBytes))
		for _, v := range slices.Concat(s.Inputs, s.Outputs) {
			v.print(w)
		}
	}
}
