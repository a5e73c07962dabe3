package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
)

type inspectOptions struct {
	sort, filter string
	check, drawn bool
}

// entryOrders are the values of --sort. Names and seeds are sorted upwards, sizes and times downwards.
var entryOrders = map[string]func(a, b cachefile.Entry) int{
	"name":   func(a, b cachefile.Entry) int { return cmp.Compare(a.Name, b.Name) },
	"size":   func(a, b cachefile.Entry) int { return cmp.Compare(b.Size, a.Size) },
	"offset": func(a, b cachefile.Entry) int { return cmp.Compare(a.Offset, b.Offset) },
	"used":   func(a, b cachefile.Entry) int { return b.UsedAt.Compare(a.UsedAt) },
	"seed":   func(a, b cachefile.Entry) int { return cmp.Compare(a.Seed, b.Seed) },
}

var entryOrderNames = slices.Sorted(maps.Keys(entryOrders))

func newInspectCommand() *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect FILE [DATA...]",
		Short: "Show what is in a cache file or a program",
		Long: `Shows the format of a cache file, the layouts (ways of packing) of its packed weights,
whether this machine's is among them, the entries, and what the bytes are used for. FILE
is a cache of xpwc, of ExecuTorch or of LiteRT, or a safetensors file with packed weights
in it. It is neither changed nor locked: it may be in use.

Of a program of ExecuTorch (.pte) it shows the methods, their operators, and the weights
by size. An operator is in a delegate for XNNPACK, or between delegates, where xpwc runs it
too, or outside: then ExecuTorch alone runs it. DATA are the program's .ptd files.

Only --check compares checksums; xpwc verify checks more. Exits with 1 if a part that was
read is damaged.`,
		Example: `  xpwc inspect model.xpwc
  xpwc inspect model.xpwc --sort size --filter '*attention*'
  xpwc inspect model.xpwc --check
  xpwc inspect model.xpwc --map
  xpwc inspect model.xpwc --json | jq '.entries[].name'
  xpwc inspect model.pte weights.ptd`,
		Args: usage(modelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if entryOrders[o.sort] == nil {
				return usagef("--sort %s: it is one of %s", o.sort, strings.Join(entryOrderNames, ", "))
			}
			if file := (modelfile.File{Path: args[0], Data: args[1:]}); file.Program() {
				if err := checkProgramFlags(cmd, file.Path); err != nil {
					return err
				}
				return inspectProgram(cmd.Context(), file, o)
			}
			return withShown(args[0], func(f shownFile, at location) error { return inspect(cmd.Context(), f, at, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.sort, "sort", "offset", "`ORDER` of the entries: "+strings.Join(entryOrderNames, ", "))
	flags.StringVar(&o.filter, "filter", "",
		"only entries or weights whose name contains `TEXT` or, with * or ?, matches it")
	flags.BoolVar(&o.check, "check", false, "compare the checksums of the entries shown")
	flags.BoolVar(&o.drawn, "map", false, "draw a map of the bytes in the file, in place of the table of entries")
	jsonFlag(cmd)
	return cmd
}

// inspection is the result of xpwc inspect.
type inspection struct {
	File       string             `json:"file"`
	Format     cachefile.Format   `json:"format"`
	Version    int                `json:"format_version"`
	ID         string             `json:"id,omitempty"`
	Generation uint64             `json:"generation"`
	Slots      []cachefile.Slot   `json:"slots,omitempty"`
	Layouts    []cachefile.Layout `json:"layouts"`
	Here       string             `json:"current_layout,omitempty"`
	Models     []cachefile.Model  `json:"models,omitempty"`
	Total      int                `json:"entry_count"`
	cachefile.Sizes
	Entries  []entryReport       `json:"entries"`
	Problems []cachefile.Problem `json:"problems"`
	Map      []cachefile.Segment `json:"map,omitempty"`
	Embedded *embedded           `json:"embedded,omitempty"` // where in the file the cache is; offsets begin there
	Stale    bool                `json:"stale,omitempty"`    // LiteRT's mark of a file that lacked something
	drawn    bool
}

// Checksum states of an entry.
const (
	sumUnchecked = "not checked"
	sumOK        = "ok"
	sumDamaged   = "damaged"
	sumNone      = "none" // ExecuTorch's entries have no checksums
)

type entryReport struct {
	cachefile.Entry
	Family   string `json:"family,omitempty"`
	Checksum string `json:"checksum"`
	PackedAt string `json:"packed_at,omitempty"`
	UsedAt   string `json:"used_at,omitempty"`
}

func inspect(ctx context.Context, f shownFile, at location, o inspectOptions) error {
	r, err := report(f)
	if err != nil && !errors.Is(err, cachefile.ErrDamaged) {
		return err
	}
	r.Embedded = at.in
	if l, ok := f.(litertCache); ok {
		r.Stale = l.file.Stale
	}
	entries := r.choose(f, o)
	var check func(cachefile.Entry) error
	if native, ok := f.(*cachefile.File); ok && o.check && r.Format == cachefile.Native {
		check = native.Check
	}
	if err := r.describe(ctx, entries, check); err != nil {
		return err
	}
	if r.drawn = o.drawn; r.drawn {
		r.Map, _ = f.Map() // report had its error
	}
	setResult(ctx, r)
	if len(r.Problems) > 0 {
		return damagedError{fmt.Errorf("%s is damaged: %d of %s; xpwc verify reports where", r.File, len(r.Problems),
			console.Plural(r.Total, "entry"))}
	}
	return nil
}

// A damagedError says in its own words that a file is damaged.
type damagedError struct{ error }

func (damagedError) Is(target error) bool { return target == cachefile.ErrDamaged }

// report describes a file, but for its entries.
func report(f shownFile) (*inspection, error) {
	info, err := f.Info()
	r := &inspection{
		File: f.Path(), Format: info.Format, Version: info.Version, Generation: info.Generation,
		Total: info.Entries, Slots: info.Slots, Layouts: append([]cachefile.Layout{}, info.Layouts...), // not null
		Models: info.Models, Sizes: info.Sizes, Problems: []cachefile.Problem{},
	}
	if info.Format != cachefile.Native {
		return r, err
	}
	r.ID = cachefile.Digest(info.ID).String()
	if here, err := xpwc.CurrentLayout(); err == nil { // otherwise XNNPACK cannot run here
		r.Here = here.Fingerprint.String()
	}
	return r, err
}

// choose returns the entries to show, in their order, and notes those whose records are damaged.
func (r *inspection) choose(f shownFile, o inspectOptions) (entries []cachefile.Entry) {
	matches := nameFilter(o.filter)
	for e, err := range f.Entries() {
		switch {
		case err != nil:
			r.addProblem(err)
		case matches(e.Name):
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, entryOrders[o.sort])
	return entries
}

func (r *inspection) addProblem(err error) {
	p := cachefile.Problem{What: err.Error()}
	if of := (*cachefile.Problem)(nil); errors.As(err, &of) {
		p = *of
	}
	r.Problems = append(r.Problems, p)
}

// nameFilter returns whether a name has the text in it or, if that has wildcards, is matched by it as a whole.
func nameFilter(text string) func(name string) bool {
	if !strings.ContainsAny(text, "*?") {
		return func(name string) bool { return strings.Contains(name, text) }
	}
	pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(text))
	return regexp.MustCompile("(?s)^" + pattern + "$").MatchString
}

// describe adds entries to the inspection, after checking them if check is given.
func (r *inspection) describe(ctx context.Context, entries []cachefile.Entry, check func(cachefile.Entry) error) error {
	progress := newProgress(ctx, "checking")
	var done, total int64
	for _, e := range entries {
		total += e.Size
	}
	defer progress.Finish()
	r.Entries = []entryReport{}
	for _, e := range entries {
		v := entryReport{Entry: e, Checksum: sumNone}
		if r.Format == cachefile.Native {
			v.Family, v.Checksum = e.Family.String(), sumUnchecked
			v.PackedAt, v.UsedAt = e.PackedAt.Format(time.RFC3339), e.UsedAt.Format(time.RFC3339)
		}
		if check != nil {
			err := check(e)
			switch {
			case errors.Is(err, cachefile.ErrDamaged):
				v.Checksum = sumDamaged
				r.addProblem(err)
			case err != nil:
				return err
			default:
				v.Checksum = sumOK
			}
			done += e.Size
			progress.Update(done, total)
		}
		r.Entries = append(r.Entries, v)
	}
	return nil
}
