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
			model.Path, model.Data = args[0], args[1:]
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
	here, err := xpwc.CurrentLayout()
	if err != nil {
		return err
	}
	all := e.Explain()
	if !readOnly(cache) {
		delete(all.Reasons, xpwc.ReasonReadOnly) // because this command opens the file read-only
	}
	found := all.Found()
	setResult(ctx, &explanation{
		File: cache, Model: file.Path, Layout: here.Fingerprint, Hits: found.Entries, HitBytes: found.Bytes,
		Weights: explainedOf(all.Weights), Tensors: explainedOf(all.Tensors),
		Reasons: execution.ReportReasons(all.Reasons), Summary: all.String(),
	})
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
	all := make([]explained, len(outcomes))
	for i, o := range outcomes {
		all[i] = explained(o)
	}
	return all
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
			t.Row(cmp.Or(console.Shorten(console.Printable(o.Name), 60), console.None), console.Size(o.Bytes), outcome)
		}
		t.Print(w)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, fold(console.Printable(e.Summary), textWidth(w)))
}
