package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/litert"
)

// litertFormat is the format of LiteRT's cache files, beside those of package cachefile.
const litertFormat cachefile.Format = "litert"

// staleLiteRT says what a stale file of LiteRT's is.
const staleLiteRT = "LiteRT has marked it as stale, because it lacked something: LiteRT writes it anew"

// inspectLiteRT shows a file of LiteRT.
func inspectLiteRT(cmd *cobra.Command, path string, o inspectOptions) error {
	if o.layout != "" || o.check || o.drawn {
		return usagef("--layout, --check and --map are not for LiteRT's files: they have neither layouts nor checksums")
	}
	f, err := litert.Open(path)
	if err != nil {
		return err
	}
	r := &inspection{File: path, Format: litertFormat, Version: litert.Version, Total: len(f.Entries),
		Layouts: []cachefile.Layout{}, Problems: []cachefile.Problem{}, Entries: []entryReport{}, Stale: f.Stale}
	r.FileBytes, r.HeaderBytes, r.IndexBytes = f.FileBytes, f.HeaderBytes(), f.ListBytes
	r.PayloadBytes = f.PayloadBytes()
	r.PaddingBytes = r.FileBytes - r.HeaderBytes - r.PayloadBytes - r.IndexBytes
	for _, id := range f.Fingerprints {
		r.Fingerprints = append(r.Fingerprints, fmt.Sprintf("%016x", id))
	}
	var entries []cachefile.Entry
	matches := nameFilter(o.filter)
	for _, e := range f.Entries {
		if matches(e.Name()) {
			entries = append(entries, cachefile.Entry{Name: e.Name(), Seed: e.Seed, Offset: e.Offset, Size: e.Size})
		}
	}
	slices.SortStableFunc(entries, entryOrders[o.sort])
	for _, e := range entries {
		r.Entries = append(r.Entries, reportEntry(e, litertFormat, sumNone))
	}
	if f.Stale {
		r.note = "note: " + staleLiteRT + "\n"
	}
	return r.show(cmd.Context(), o)
}

// verifyLiteRT checks what can be checked of a file of LiteRT, and with a model packs that and compares every byte.
func verifyLiteRT(ctx context.Context, path string, model modelfile.File, cpu, library string) error {
	v := &verification{File: path, Format: litertFormat, Problems: []cachefile.Problem{}}
	f, err := litert.Open(path)
	switch {
	case errors.Is(err, litert.ErrDamaged):
		v.Problems = append(v.Problems, cachefile.Problem{What: errors.Unwrap(err).Error()})
	case err != nil:
		return err
	case f.Stale:
		v.Problems = append(v.Problems, cachefile.Problem{Offset: litert.StaleAt, What: staleLiteRT})
	default:
		v.Sound, v.Entries, v.PayloadBytes = true, len(f.Entries), f.PayloadBytes()
	}
	if v.Sound && model.Path != "" {
		there, _, err := fd.OpenRegular(path)
		if err != nil {
			return err
		}
		v.Proof, err = proveLiteRT(ctx, there, model, cpu, library)
		if err := errors.Join(err, there.Close()); err != nil {
			return err
		}
	}
	if info, err := os.Stat(path); err == nil {
		v.writable = info.Mode().Perm()&0o222 != 0
	}
	setResult(ctx, v)
	return v.err()
}

// proveLiteRT has LiteRT's code pack a model, and compares a file with that.
func proveLiteRT(ctx context.Context, there *os.File, model modelfile.File, cpu, library string) (*proof, error) {
	if err := checkLiteRTModel(model); err != nil {
		return nil, err
	}
	packer, err := newLiteRTPacker(library)
	if err != nil {
		return nil, err
	}
	work, right, err := packer.packAside(ctx, model.Path, cpu)
	if err != nil {
		return nil, err
	}
	defer work.discard()
	info, err := there.Stat()
	if err != nil {
		return nil, err
	}
	at, err := litert.Differ(io.NewSectionReader(there, 0, info.Size()), io.NewSectionReader(work, 0, right.FileBytes))
	if err != nil {
		return nil, err
	}
	p := &proof{Model: model.Path, CPU: cpu, Wrong: []wrong{}}
	if at < 0 {
		p.Equal, p.EqualBytes = len(right.Entries), right.PayloadBytes()
		return p, nil
	}
	differs := wrong{What: "it is not the file that LiteRT writes", Offset: at}
	for _, e := range right.Entries {
		if e.Offset <= at && at < e.Offset+e.Size {
			differs.Entry, differs.What = e.Name(), "its bytes are not those that it is packed into here"
		}
	}
	differs.What = fmt.Sprintf("from byte %d of the file on %s", at, differs.What)
	p.Wrong = append(p.Wrong, differs)
	return p, nil
}
