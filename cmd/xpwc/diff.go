package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
)

func newDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare the entries of two cache files",
		Long: `Prints in which entries two cache files differ: entries that only A or only B has, and
entries of one name that have different bytes, seeds, keys (packing, fingerprint_id) or
layouts. Where both files have checksums, payloads are not read. What one of the files
does not have, as ExecuTorch's have no layouts, is not compared.

Exits with 0 if there are no differences, with 1 if there are, and with 2 if something
went wrong.`,
		Example: `  xpwc diff built.xpwc deployed.xpwc
  xpwc diff model.xpwc model.packed_cache --json
  xpwc diff a.xpwc b.xpwc >/dev/null && echo equal`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := withFile(args[0], func(a *cachefile.File) error {
				return withFile(args[1], func(b *cachefile.File) error {
					return diff(cmd.Context(), a, b)
				})
			})
			if err != nil && !errors.Is(err, errDifferent) {
				return troubleError{err}
			}
			return err
		},
	}
	jsonFlag(cmd)
	return cmd
}

// comparison is the result of xpwc diff.
type comparison struct {
	A           string                 `json:"a"`
	B           string                 `json:"b"`
	Matches     int                    `json:"equal_entry_count"`
	Differences []cachefile.Difference `json:"differences"`

	layouts map[string]string // descriptions, by their fingerprints
}

func diff(ctx context.Context, a, b *cachefile.File) error {
	differences, matches, err := cachefile.Diff(a, b)
	if err != nil {
		return err
	}
	c := &comparison{A: a.Path(), B: b.Path(), Matches: matches, layouts: map[string]string{},
		Differences: append([]cachefile.Difference{}, differences...)} // not null
	for _, f := range []*cachefile.File{a, b} {
		info, _ := f.Info() // what cannot be read has no layouts
		for _, l := range info.Layouts {
			c.layouts[l.Fingerprint.String()] = l.Description
		}
	}
	setResult(ctx, c)
	if len(differences) > 0 {
		return errDifferent
	}
	return nil
}

func (c *comparison) print(w io.Writer) {
	var t console.Table
	t.Row("name", "", "A", "B", "layout")
	count := map[cachefile.Change]int{}
	for _, d := range c.Differences {
		e := cmp.Or(d.A, d.B)
		count[d.Change]++
		layout := len(c.layouts) > 1 && d.Change != cachefile.OtherLayout && e.Layout != (cachefile.Digest{})
		t.Row(shownName(e), string(d.Change), side(d.Change, d.A), side(d.Change, d.B),
			cell(layout, e.Layout.String()[:shortLayout]))
	}
	t.LeaveOutEmpty()
	if len(c.Differences) > 0 {
		t.Fit(terminal.Width(w))
		t.Print(w)
		fmt.Fprintln(w)
		for _, l := range slices.Sorted(maps.Keys(c.layouts)) {
			fmt.Fprintf(w, "layout %s: %s\n", l[:shortLayout], console.Printable(c.layouts[l]))
		}
	}
	text := console.Plural(c.Matches, "entry") + " in common"
	for _, change := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf(", %d %s", count[change], change)
	}
	fmt.Fprintln(w, text+".")
}

// side returns what a change is about in one of the files.
func side(change cachefile.Change, e *cachefile.Entry) string {
	switch {
	case e == nil:
		return console.Blank
	case change == cachefile.OtherSeed:
		return fmt.Sprintf("seed %08x", e.Seed)
	case change == cachefile.OtherLayout:
		return "layout " + e.Layout.String()[:shortLayout]
	case change == cachefile.OtherBytes:
		return fmt.Sprintf("%s, sum %s", console.Size(e.Size), e.Sum.String()[:8])
	}
	return console.Size(e.Size)
}
