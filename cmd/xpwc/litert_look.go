package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/litert"
)

// litertFormat is the format of LiteRT's cache files, beside those of package cachefile.
const litertFormat cachefile.Format = "litert"

// staleLiteRT says what a stale file of LiteRT's is.
const staleLiteRT = "LiteRT has marked it as stale, because it lacked something: LiteRT writes it anew"

// A shownFile is a cache file of any kind: package cachefile's, or a litertCache.
type shownFile interface {
	htmlreport.File
	Path() string
}

// withShown calls do with an open cache file of any kind, or with the packed weights in a safetensors file.
func withShown(path string, do func(f shownFile, at location) error) error {
	if litert.IsCache(path) {
		f, err := litert.Open(path)
		if err != nil {
			return err
		}
		return do(litertCache{f, path}, location{path: path})
	}
	at, err := locate(path)
	if err != nil {
		return err
	}
	return at.with(func(f *cachefile.File) error { return do(f, at) })
}

// A litertCache is a file of LiteRT.
type litertCache struct {
	file *litert.File
	path string
}

func (l litertCache) Path() string { return l.path }

func (l litertCache) Info() (cachefile.Info, error) {
	f := l.file
	padding := f.FileBytes - f.HeaderBytes() - f.PayloadBytes() - f.ListBytes
	sizes := cachefile.Sizes{FileBytes: f.FileBytes, HeaderBytes: f.HeaderBytes(), PayloadBytes: f.PayloadBytes(),
		IndexBytes: f.ListBytes, PaddingBytes: padding}
	return cachefile.Info{Format: litertFormat, Version: litert.Version, Entries: len(f.Entries), Sizes: sizes}, nil
}

// Commits returns none: LiteRT writes a file once.
func (l litertCache) Commits() ([]cachefile.Commit, error) { return nil, nil }

func (l litertCache) Map() ([]cachefile.Segment, error) {
	end := l.file.HeaderBytes()
	all := []cachefile.Segment{{Kind: cachefile.Header, Size: end}}
	add := func(kind cachefile.Kind, offset, size int64) {
		if offset > end {
			all = append(all, cachefile.Segment{Kind: cachefile.Padding, Offset: end, Size: offset - end})
		}
		all, end = append(all, cachefile.Segment{Kind: kind, Offset: offset, Size: size}), offset+size
	}
	for e := range l.Entries() {
		add(cachefile.Payload, e.Offset, e.Size)
	}
	add(cachefile.Index, l.file.FileBytes-l.file.ListBytes, l.file.ListBytes)
	return all, nil
}

func (l litertCache) Entries() iter.Seq2[cachefile.Entry, error] {
	byOffset := func(a, b litert.Entry) int { return cmp.Compare(a.Offset, b.Offset) }
	return func(yield func(cachefile.Entry, error) bool) {
		for _, e := range slices.SortedFunc(slices.Values(l.file.Entries), byOffset) {
			if !yield(cachefile.Entry{Name: e.Name(), Seed: e.Seed, Offset: e.Offset, Size: e.Size}, nil) {
				return
			}
		}
	}
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
		if v.Proof, err = proveLiteRTAt(ctx, path, model, cpu, library); err != nil {
			return err
		}
	}
	if info, err := os.Stat(path); err == nil {
		v.writable = info.Mode().Perm()&0o222 != 0
	}
	setResult(ctx, v)
	return v.err()
}

// proveLiteRTAt is proveLiteRT of the file at a path.
func proveLiteRTAt(ctx context.Context, path string, model modelfile.File, cpu, library string) (*proof, error) {
	there, _, err := fd.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	return proveLiteRT(ctx, there, model, cpu, library)
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
	what := fmt.Sprintf("from byte %d on it is not the file that LiteRT writes here", at)
	p.Wrong = append(p.Wrong, wrong{What: what, Offset: at})
	return p, nil
}
