package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
	"xpwc/xnnpack"
)

func newExplainCommand() *cobra.Command {
	var cache, cpu string
	var model modelfile.File
	cmd := &cobra.Command{
		Use:   "explain --cache FILE MODEL [DATA...]",
		Short: "Explain what a start would find in a cache, and why not more",
		Long: `Explains for a model what a start here and now would do with each weight: find it in the
cache, or pack it, and for which reason; and which tensors of the model it would read. It
asks the cache as a start does, with XNNPACK, and takes as long as one. What is not found
is packed into memory. The file is neither written to, locked nor created.

MODEL, DATA, --method and --description are as for xpwc run. docs/operations.md lists the
reasons, and what to do about each.

Exits with 0 if it could be explained, whether a start would find anything or not.`,
		Example: `  xpwc explain --cache pose.xpwc pose.tflite
  xpwc explain --cache llm.xpwc llm.pte llm.ptd --method prefill
  xpwc explain --cache pose.xpwc pose.tflite --json | jq '.reasons'`,
		Args: usage(modelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			model.Path, model.Section = modelfile.Split(args[0])
			model.Data = args[1:]
			return explainModel(cmd.Context(), model, cache, cpu)
		},
	}
	f := cmd.Flags()
	descriptionFlag(cmd, &model.Description)
	methodFlag(cmd, &model.Method)
	f.StringVar(&cache, "cache", "", "cache `FILE` of packed weights")
	f.StringVar(&cpu, "cpu", native, "CPU `LEVEL` to start for, as a lesser CPU would: "+levelNames())
	jsonFlag(cmd)
	return cmd
}

// explanation is the result of xpwc explain.
type explanation struct {
	File     string                   `json:"file"`
	Model    string                   `json:"model"`
	Layout   xpwc.Digest              `json:"current_layout"`
	Hits     int64                    `json:"hits"`
	HitBytes int64                    `json:"hit_bytes"`
	Weights  []explained              `json:"weights"`
	Tensors  []explained              `json:"tensors"`
	Reasons  []execution.ReasonReport `json:"reasons"`
	Summary  string                   `json:"summary"`
	// Format of a file for the stock ExecuTorch, and the program that the file was packed for, if it has these.
	Format    cachefile.Format `json:"format,omitempty"`
	PackedFor *packedFor       `json:"packed_for,omitempty"`
}

// explained is a weight, or a tensor that would be read.
type explained struct {
	Name   string      `json:"name"`
	Bytes  int64       `json:"bytes"`
	Reason xpwc.Reason `json:"reason,omitempty"` // none: it would be found
	Detail string      `json:"detail,omitempty"`
}

func explainModel(ctx context.Context, file modelfile.File, cache, cpu string) (err error) {
	if err := errors.Join(checkModel(file), checkLevel(cpu)); err != nil {
		return err
	}
	if err := xnnpack.LimitCPU(cpu); err != nil {
		return err
	}
	m, err := openFor(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	backing, cache := backingOf(m, file, cache, &xpwc.Options{ReadOnly: true})
	if cache == "" {
		return usagef("--cache is missing; give the file that the start would use")
	}
	jobOf(ctx).waitFor("")
	e, err := instance.New(m, backing, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	current, err := xpwc.CurrentLayout()
	if err != nil {
		return err
	}
	outcome := e.Explain()
	if !readOnly(cache) {
		delete(outcome.Reasons, xpwc.ReasonReadOnly) // because this command opens the file read-only
	}
	misses := outcome.Found()
	result := &explanation{
		File: cache, Model: file.String(), Layout: current.Fingerprint, Hits: misses.Entries, HitBytes: misses.Bytes,
		Weights: explainedOf(outcome.Weights), Tensors: explainedOf(outcome.Tensors),
		Reasons: execution.ReportReasons(outcome.Reasons), Summary: outcome.String(),
	}
	// The outcome has the reason if the file cannot be read.
	_ = withFile(cache, func(f *cachefile.File) error {
		if info, err := f.Info(); err == nil && info.Format == cachefile.XPWC2 {
			result.Format, result.PackedFor = info.Format, readPackedFor(info.Note)
		}
		return nil
	})
	setResult(ctx, result)
	return nil
}

// readOnly reports whether a start could not write to a cache file, or could not make one at its path. Root too packs
// into no file that nobody may write to.
func readOnly(path string) bool {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return !mayWrite(filepath.Dir(path))
	}
	return err == nil && info.Mode().Perm()&0o222 == 0 || !mayWrite(path)
}

func explainedOf(outcomes []xpwc.Outcome) []explained {
	rows := make([]explained, len(outcomes))
	for i, o := range outcomes {
		rows[i] = explained(o)
	}
	return rows
}

func (e *explanation) print(w io.Writer) {
	for _, list := range []struct {
		title    string
		outcomes []explained
	}{{"weight", e.Weights}, {"tensor that is read", e.Tensors}} {
		if len(list.outcomes) == 0 {
			continue
		}
		var t console.Table
		t.Row(list.title, "size", "a start here")
		for _, o := range list.outcomes {
			outcome := "found"
			if o.Reason != "" {
				outcome = string(o.Reason)
			}
			t.Row(cmp.Or(console.Shorten(console.Printable(o.Name), 60), console.Blank), console.Size(o.Bytes), outcome)
		}
		t.Print(w)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, fold(console.Printable(e.Summary), textWidth(w)))
	if e.Format == "" {
		return
	}
	note := "note: " + console.Printable(e.File) + " is for the stock ExecuTorch"
	if e.PackedFor != nil {
		note += ", packed for " + e.PackedFor.String()
	}
	note += ": xpwc verify FILE --model MODEL shows what that runtime finds. A start of xpwc packs into another file."
	fmt.Fprintln(w, fold(note, textWidth(w)))
}
