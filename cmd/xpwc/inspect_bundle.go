package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/models/bundle"
	"xpwc/models/litert"
)

// bundleReport is the result of xpwc inspect of a bundle.
type bundleReport struct {
	File      string             `json:"file"`
	Format    bundle.Format      `json:"format"`
	Version   string             `json:"format_version,omitempty"`
	FileBytes int64              `json:"file_bytes"`
	Metadata  []bundle.Attribute `json:"metadata"`
	Sections  []sectionReport    `json:"sections"`
}

// sectionReport is a section of a bundle. Offset and size are in bytes.
type sectionReport struct {
	Name       string             `json:"name"`
	Kind       bundle.Kind        `json:"kind"`
	Type       string             `json:"type"`
	Offset     int64              `json:"offset"`
	Bytes      int64              `json:"bytes"`
	Metadata   []bundle.Attribute `json:"metadata"`
	Signatures []signatureReport  `json:"signatures,omitempty"` // of a model
	Reason     string             `json:"unreadable_because,omitempty"`
	Cache      *cacheReport       `json:"litert_lm_cache,omitempty"` // of a model that LiteRT-LM's engine packs
}

// cacheReport is the file of packed weights that LiteRT-LM's engine looks for beside the bundle.
type cacheReport struct {
	Name    string `json:"name"`
	Present bool   `json:"present"`
}

// inspectBundle describes the sections of a bundle and the signatures of its models, or one of its models.
func inspectBundle(ctx context.Context, file modelfile.File) error {
	if file.Section != "" {
		m, err := file.Model()
		if err != nil {
			return err
		}
		return inspectModel(ctx, m)
	}
	b, err := bundle.Open(file.Path)
	if err != nil {
		return err
	}
	r := &bundleReport{File: file.Path, Format: b.Format, Version: b.Version, Sections: []sectionReport{},
		Metadata: append([]bundle.Attribute{}, b.Metadata...)} // not null
	info, err := os.Stat(file.Path)
	if err != nil {
		return err
	}
	r.FileBytes = info.Size()
	for _, s := range b.Sections {
		section := sectionReport{Name: s.Name, Kind: s.Kind, Type: s.Type, Offset: s.Offset, Bytes: s.Size,
			Metadata: append([]bundle.Attribute{}, s.Metadata...)}
		if s.Kind == bundle.Model {
			file.Section = s.Name
			m, err := file.Model()
			if err == nil {
				section.Signatures, err = reportSignatures(m)
			}
			if err != nil {
				section.Reason = explain(err)
			}
			if cache, ok := litert.EngineCacheOf(info, s.Role); ok {
				missing := slices.ContainsFunc(cache.Names(), func(name string) bool {
					_, err := os.Stat(filepath.Join(filepath.Dir(file.Path), name))
					return err != nil
				})
				section.Cache = &cacheReport{cache.String(), !missing}
			}
		}
		r.Sections = append(r.Sections, section)
	}
	setResult(ctx, r)
	return nil
}

func (r *bundleReport) print(w io.Writer) {
	format := "a bundle of LiteRT-LM, version " + console.Printable(r.Version)
	if r.Format == bundle.Task {
		format = "a task of MediaPipe"
	}
	fmt.Fprintf(w, "%s: %s, %s, %s\n", r.File, format, console.Plural(len(r.Sections), "section"),
		console.Size(r.FileBytes))
	printAttributes(w, r.Metadata)
	fmt.Fprintln(w)
	var t console.Table
	t.Row("section", "kind", "type", "offset", "size")
	for _, s := range r.Sections {
		t.Row(console.Printable(s.Name), string(s.Kind), s.Type, fmt.Sprint(s.Offset), console.Size(s.Bytes))
	}
	t.Fit(terminal.Width(w))
	t.Print(w)
	for _, s := range r.Sections {
		if len(s.Metadata) == 0 && s.Kind != bundle.Model {
			continue
		}
		fmt.Fprintf(w, "\nsection %s\n", console.Printable(s.Name))
		printAttributes(w, s.Metadata)
		if s.Cache != nil {
			present := "is not there"
			if s.Cache.Present {
				present = "is there"
			}
			fmt.Fprintf(w, "LiteRT-LM's packed weights: %s, which %s\n", console.Printable(s.Cache.Name), present)
		}
		if s.Reason != "" {
			fmt.Fprintln(w, "cannot be read:", printableLines(s.Reason))
		}
		for _, signature := range s.Signatures {
			signature.print(w)
		}
	}
}

func printAttributes(w io.Writer, attributes []bundle.Attribute) {
	for _, a := range attributes {
		fmt.Fprintf(w, "%s: %s\n", console.Printable(a.Key), console.Printable(a.Value))
	}
}
