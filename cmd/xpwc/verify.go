package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/internal/workdir"
)

func newVerifyCommand() *cobra.Command {
	var json bool
	var model modelfile.File
	cmd := &cobra.Command{
		Use:   "verify FILE [--model MODEL]",
		Short: "Check everything in a cache file",
		Long: `Checks every checksum and every rule of a cache file (docs/format.md): the header's slots, the index and each record of it, that
records can be found, that payloads neither overlap nor lie elsewhere than they may, that the index for ExecuTorch agrees, and each
payload's checksum. Prints what is wrong, and where: file offsets in bytes. The file is neither changed nor locked. FILE may be a
safetensors file with packed weights in it (xpwc pack --embed-beside); these are checked, and not the tensors beside them.

ExecuTorch's files have no checksums: their index is checked, and that payloads can be read.

Checksums tell damage, not who made the file: who can write it chooses what the model computes, as who can write the model does. With
--model, MODEL is packed once more, as xpwc pack does, and whatever the file would answer its look-ups with is compared to the byte:
a proof to have before a file from elsewhere is deployed. It takes room for the packed weights in the directory for temporary files
(TMPDIR). Entries that MODEL does not use, and those of other CPUs' layouts, cannot be compared so, and are counted.

A cache need not be repaired: who opens it with xpwc packs again what is damaged. xpwc compact drops damaged payloads.

Exits with 0 if nothing is wrong, and with 1 if something is, the file lacks something of MODEL, or cannot be read.`,
		Example: `  xpwc verify model.xpwc
  xpwc verify model.xpwc --json | jq '.problems[] | {offset, what, entry}'
  xpwc verify model.xpwc || rm model.xpwc
  xpwc verify from-elsewhere.xpwc --model model.tflite && cp from-elsewhere.xpwc model.xpwc`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkModel(model); err != nil {
				return err
			}
			return verify(cmd.Context(), args[0], model, json, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	modelFlags(cmd, &model)
	jsonFlag(cmd, &json)
	return cmd
}

// verification is what xpwc verify tells.
type verification struct {
	File         string           `json:"file"`
	Embedded     *embedded        `json:"embedded,omitempty"` // where in the file the cache is, and offsets are counted from
	Sound        bool             `json:"sound"`
	Format       cachefile.Format `json:"format,omitempty"`
	Generation   uint64           `json:"generation,omitempty"`
	Entries      int              `json:"entries"`
	PayloadBytes int64            `json:"payload_bytes"`
	Uncommitted  int64            `json:"uncommitted_bytes,omitempty"`
	Problems     []problemReport  `json:"problems"`
	Proof        *proof           `json:"proof,omitempty"`
}

type problemReport struct {
	Offset int64  `json:"offset"`
	What   string `json:"what"`
	Entry  string `json:"entry,omitempty"`
}

func verify(ctx context.Context, path string, model modelfile.File, asJSON bool, stdout, stderr io.Writer) error {
	at, err := locate(path)
	if err != nil {
		return err
	}
	bar := console.NewProgress(stderr, "verifying")
	problems, err := at.verify(bar.Update)
	bar.Finish()
	if err != nil {
		return err
	}
	v := verification{File: path, Embedded: at.report(), Sound: len(problems) == 0, Problems: []problemReport{}}
	for _, p := range problems {
		v.Problems = append(v.Problems, problemReport{p.Offset, p.What, p.Name})
	}
	// What cannot be opened has its problems told already.
	_ = at.with(func(f *cachefile.File) error {
		info, _ := f.Info()
		v.Format, v.Generation, v.Entries = info.Format, info.Generation, info.Entries
		v.PayloadBytes, v.Uncommitted = info.PayloadBytes, info.UncommittedBytes
		return nil
	})
	if v.Sound && model.Path != "" {
		if err := v.prove(ctx, at, model, stderr); err != nil {
			return err
		}
	}
	if asJSON {
		if err := printJSON(stdout, v); err != nil {
			return err
		}
	} else {
		fmt.Fprint(stdout, at.note())
		v.print(stdout, problems)
		v.Proof.print(stdout, v.File)
	}
	if v.Proof != nil && !v.Proof.holds() {
		return v.Proof.err(path)
	}
	if !v.Sound {
		return fmt.Errorf("%s: %s: %w", path, console.Plural(len(problems), "problem"), cachefile.ErrDamaged)
	}
	return nil
}

// prove compares the file with what the model is packed into here, in a directory for temporary files.
func (v *verification) prove(ctx context.Context, at location, model modelfile.File, stderr io.Writer) (err error) {
	var dir *workdir.Dir
	removed, err := jobOf(ctx).making(func() (err error) {
		dir, err = workdir.New(os.TempDir())
		return err
	}, func() { _ = dir.Remove() })
	if err != nil {
		return err
	}
	defer removed() // after it is removed, for which an interrupt waits
	defer func() { err = errors.Join(err, dir.Remove()) }()
	return at.with(func(f *cachefile.File) (err error) {
		v.Proof, err = prove(f, model, dir.File(proving), stderr)
		return err
	})
}

func (v *verification) print(w io.Writer, problems []cachefile.Problem) {
	for _, p := range problems {
		fmt.Fprintf(w, "%s: %s\n", v.File, console.Printable(p.Place()))
	}
	if v.Uncommitted > 0 {
		fmt.Fprintf(w, "note: %s: %s behind the end of generation %d: a writer is at work, or was killed\n",
			v.File, console.Size(v.Uncommitted), v.Generation)
	}
	switch {
	case !v.Sound:
	case v.Format == cachefile.Native:
		fmt.Fprintf(w, "%s: sound: generation %d, %s, the checksums of %s of payloads are right\n",
			v.File, v.Generation, console.Plural(v.Entries, "entry"), console.Size(v.PayloadBytes))
	default:
		fmt.Fprintf(w, "%s: sound as far as ExecuTorch's files (%s) tell: %s, %s of payloads without checksums\n",
			v.File, v.Format, console.Plural(v.Entries, "entry"), console.Size(v.PayloadBytes))
	}
}
