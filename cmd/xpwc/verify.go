package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
)

func newVerifyCommand() *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check everything in a cache file",
		Long: `Checks every checksum and every rule of a cache file (docs/format.md): the header's slots, the index and each record of it, that
records can be found, that payloads neither overlap nor lie elsewhere than they may, that the index for ExecuTorch agrees, and each
payload's checksum. Prints what is wrong, and where: file offsets in bytes. The file is neither changed nor locked. FILE may be a
safetensors file with packed weights in it (xpwc pack --embed-beside); these are checked, and not the tensors beside them.

ExecuTorch's files have no checksums: their index is checked, and that payloads can be read.

A cache need not be repaired: who opens it with xpwc packs again what is damaged. xpwc compact drops damaged payloads.

Exits with 0 if nothing is wrong, and with 1 if something is or the file cannot be read.`,
		Example: `  xpwc verify model.xpwc
  xpwc verify model.xpwc --json | jq '.problems[] | {offset, what, entry}'
  xpwc verify model.xpwc || rm model.xpwc`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verify(args[0], json, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
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
}

type problemReport struct {
	Offset int64  `json:"offset"`
	What   string `json:"what"`
	Entry  string `json:"entry,omitempty"`
}

func verify(path string, asJSON bool, stdout, stderr io.Writer) error {
	at, err := locate(path)
	if err != nil {
		return err
	}
	bar := newProgress(stderr, "verifying")
	problems, err := at.verify(bar.update)
	bar.finish()
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
	if asJSON {
		if err := printJSON(stdout, v); err != nil {
			return err
		}
	} else {
		fmt.Fprint(stdout, at.note())
		v.print(stdout, problems)
	}
	if !v.Sound {
		return fmt.Errorf("%s: %s: %w", path, plural(len(problems), "problem"), cachefile.ErrDamaged)
	}
	return nil
}

func (v *verification) print(w io.Writer, problems []cachefile.Problem) {
	for _, p := range problems {
		fmt.Fprintf(w, "%s: %s\n", v.File, printable(p.Place()))
	}
	if v.Uncommitted > 0 {
		fmt.Fprintf(w, "note: %s: %s behind the end of generation %d: a writer is at work, or was killed\n",
			v.File, size(v.Uncommitted), v.Generation)
	}
	switch {
	case !v.Sound:
	case v.Format == cachefile.Native:
		fmt.Fprintf(w, "%s: sound: generation %d, %s, the checksums of %s of payloads are right\n",
			v.File, v.Generation, plural(v.Entries, "entry"), size(v.PayloadBytes))
	default:
		fmt.Fprintf(w, "%s: sound as far as ExecuTorch's files (%s) tell: %s, %s of payloads without checksums\n",
			v.File, v.Format, plural(v.Entries, "entry"), size(v.PayloadBytes))
	}
}
