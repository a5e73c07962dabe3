package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
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

// inspectModel describes each signature of a .tflite file or of a model in a bundle.
func inspectModel(ctx context.Context, file modelfile.File) error {
	signatures, err := reportSignatures(file)
	if err != nil {
		return err
	}
	setResult(ctx, &modelReport{file.String(), signatures})
	return nil
}

func reportSignatures(file modelfile.File) (reports []signatureReport, err error) {
	names, err := tflite.Signatures(file.Path, file.TFLite())
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = []string{""}
	}
	for _, file.Method = range names {
		reports = append(reports, reportSignature(file, file.Method))
	}
	return reports, nil
}

func reportSignature(file modelfile.File, name string) signatureReport {
	m, err := tflite.Open(file.Path, file.TFLite())
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
		s.print(w)
	}
}

func (s *signatureReport) print(w io.Writer) {
	if s.Name != "" {
		fmt.Fprintf(w, "signature %s: ", console.Printable(s.Name))
	}
	if !s.Runnable {
		fmt.Fprintln(w, "cannot be run:")
		fmt.Fprintln(w, printableLines(s.Reason))
		return
	}
	fmt.Fprintf(w, "can be run, %s of weights\n", console.Size(s.WeightBytes))
	for _, v := range slices.Concat(s.Inputs, s.Outputs) {
		v.print(w)
	}
}
