package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/internal/trust"
	"xpwc/litert"
)

func newVerifyCommand() *cobra.Command {
	var model modelfile.File
	var cpu, library string
	cmd := &cobra.Command{
		Use:   "verify FILE [--model MODEL]",
		Short: "Check everything in a cache file",
		Long: `Checks every rule of the format of a cache file (docs/format.md), and the checksum of each
payload. Prints what is wrong and at which offset of the file, in bytes. The file is
neither changed nor locked. FILE may be a safetensors file with packed weights in it: then
these are checked, and not the other tensors. ExecuTorch's files and LiteRT's have no
checksums: of these the index is checked.

Checksums find damage. They do not prove who made the file, and who can write it decides
what the model computes. With --model, MODEL is packed, in the directory for temporary
files (TMPDIR), and every entry that the file has for it is compared byte for byte. Use it
before you deploy a file that was packed elsewhere. A file for a stock runtime and another
CPU needs --cpu (see xpwc pack --for).

A damaged cache need not be repaired: programs that open it pack damaged weights again.

Exits with 1 if something is wrong, if the file has not all that MODEL needs, if others
can write to it, so that programs refuse it, or if it cannot be read.`,
		Example: `  xpwc verify model.xpwc
  xpwc verify model.xpwc --json | jq '.problems[] | {offset, what, entry}'
  xpwc verify model.xpwc || rm model.xpwc
  xpwc verify received.xpwc --model model.tflite && cp received.xpwc model.xpwc
  xpwc verify model.packed_cache --model model.pte --cpu avx2
  xpwc verify model.litert_cache --model model.tflite --cpu avx2`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(checkModel(model), checkLevel(cpu)); err != nil {
				return err
			}
			if cpu != native && model.Path == "" {
				return usagef("--cpu is for --model")
			}
			if litert.IsCache(args[0]) {
				return verifyLiteRT(cmd.Context(), args[0], model, cpu, library)
			}
			return verify(cmd.Context(), args[0], model, cpu)
		},
	}
	modelFlags(cmd, &model)
	cmd.Flags().StringVar(&cpu, "cpu", native, "CPU `LEVEL` to pack MODEL for: "+levelNames())
	libraryFlag(cmd, &library)
	jsonFlag(cmd)
	return cmd
}

// verification is the result of xpwc verify.
type verification struct {
	File         string              `json:"file"`
	Embedded     *embedded           `json:"embedded,omitempty"` // where in the file the cache is; offsets begin there
	Sound        bool                `json:"sound"`
	Format       cachefile.Format    `json:"format,omitempty"`
	Generation   uint64              `json:"generation,omitempty"`
	Entries      int                 `json:"entry_count"`
	PayloadBytes int64               `json:"payload_bytes"`
	Uncommitted  int64               `json:"uncommitted_bytes,omitempty"`
	Refused      string              `json:"refused,omitempty"` // why programs do not open it, sound or not
	Problems     []cachefile.Problem `json:"problems"`
	Proof        *proof              `json:"proof,omitempty"`
	PackedFor    *packedFor          `json:"packed_for,omitempty"`
	Another      bool                `json:"packed_for_another,omitempty"` // than the model

	writable bool // a file of LiteRT, which LiteRT writes to
}

func verify(ctx context.Context, path string, model modelfile.File, cpu string) error {
	at, err := locate(path)
	if err != nil {
		return err
	}
	progress := newProgress(ctx, "verifying")
	problems, err := at.verify(progress.Update)
	progress.Finish()
	if err != nil {
		return err
	}
	v := &verification{File: path, Embedded: at.in, Sound: len(problems) == 0,
		Problems: append([]cachefile.Problem{}, problems...)} // not null
	if info, err := os.Stat(path); err == nil {
		v.Refused = trust.Writable(info)
	}
	// If the file cannot be opened, the problems say why.
	_ = at.with(func(f *cachefile.File) error {
		info, _ := f.Info()
		v.Format, v.Generation, v.Entries = info.Format, info.Generation, info.Entries
		v.PayloadBytes, v.Uncommitted = info.PayloadBytes, info.UncommittedBytes
		v.PackedFor = readPackedFor(info.Note)
		return nil
	})
	if v.Sound && model.Path != "" {
		err := at.with(func(f *cachefile.File) (err error) {
			v.Proof, err = prove(ctx, f, model, cpu)
			return err
		})
		if err != nil {
			return err
		}
		if v.PackedFor != nil {
			given, err := newPackedFor(model, cpu)
			if err != nil {
				return err
			}
			v.Another = !v.PackedFor.sameProgram(given)
		}
	}
	setResult(ctx, v)
	return v.err()
}

// err returns the error that what was found is.
func (v *verification) err() error {
	if v.Proof != nil && !v.Proof.holds() {
		return v.Proof.err(v.File)
	}
	if !v.Sound {
		return fmt.Errorf("%s: %s: %w", v.File, console.Plural(len(v.Problems), "problem"), cachefile.ErrDamaged)
	}
	if v.Refused != "" {
		return fmt.Errorf("%s: programs refuse it, because %s: %w", v.File, v.Refused, cachefile.ErrUnsafeFile)
	}
	return nil
}

func (v *verification) printPackedFor(w io.Writer) {
	if v.PackedFor == nil {
		return
	}
	fmt.Fprintf(w, "%s: it says that it was packed for %v, CPUs of level %s\n", v.File, v.PackedFor,
		console.Printable(v.PackedFor.CPU))
	switch {
	case !v.Another:
	case v.Proof.holds():
		fmt.Fprintf(w, "note: %s is another program, with the same packed weights\n", v.Proof.Model)
	default:
		fmt.Fprintf(w, "note: %s is another program: pack it\n", v.Proof.Model)
	}
}

func (v *verification) print(w io.Writer) {
	if v.Embedded != nil {
		fmt.Fprintf(w, "note: %s: %s\n", v.File, v.Embedded.note())
	}
	for _, p := range v.Problems {
		fmt.Fprintf(w, "%s: %s\n", v.File, console.Printable(p.Place()))
	}
	if v.Uncommitted > 0 {
		fmt.Fprintf(w, "note: %s: %s after the end of generation %d: a program is writing, or was killed\n",
			v.File, console.Size(v.Uncommitted), v.Generation)
	}
	switch {
	case !v.Sound:
	case v.Format == cachefile.Native:
		fmt.Fprintf(w, "%s: sound: generation %d, %s, the checksums of %s are right\n",
			v.File, v.Generation, console.Plural(v.Entries, "entry"), console.Size(v.PayloadBytes))
	default:
		fmt.Fprintf(w, "%s: sound as far as %s's files can be checked: %s, %s without checksums\n",
			v.File, htmlreport.Whose(v.Format), console.Plural(v.Entries, "entry"), console.Size(v.PayloadBytes))
	}
	v.Proof.print(w, v.File)
	v.printPackedFor(w)
	if v.writable {
		fmt.Fprintf(w, "note: %s is not read-only: LiteRT writes to it when it does not suit it; chmod 0444\n", v.File)
	}
}
