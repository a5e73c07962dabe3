package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/cpu"
	"xpwc/registry"
)

// current is what this machine's layout is called on the command line.
const current = "current"

// errNoLayout is matched by errors that say that a name is not that of one layout.
var errNoLayout = errors.New("no such layout")

type layoutError struct{ error }

func (layoutError) Is(target error) bool { return target == errNoLayout }

// selectLayout returns the layout of a file whose fingerprint begins with name, or this machine's if name is the word
// current. The error lists the layouts of the file.
func selectLayout(path string, layouts []cachefile.Layout, name string) (_ cachefile.Digest, err error) {
	prefix := strings.ToLower(name)
	if name == current {
		here, err := xpwc.CurrentLayout()
		if err != nil {
			return cachefile.Digest{}, err
		}
		prefix = here.Fingerprint.String()
	}
	var found []cachefile.Digest
	var all []string
	for _, l := range layouts {
		if prefix != "" && strings.HasPrefix(l.Fingerprint.String(), prefix) {
			found = append(found, l.Fingerprint)
		}
		all = append(all, fmt.Sprintf("%s (%s)", l.Fingerprint, console.Printable(l.Description)))
	}
	has := "; it has " + strings.Join(all, ", ")
	if len(all) == 0 {
		has = "; it has none"
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		err = fmt.Errorf("%s: several layouts begin with %q%s", path, name, has)
	case name == current:
		err = fmt.Errorf("%s has no entries of this machine's layout, %s%s", path, prefix, has)
	default:
		err = fmt.Errorf("%s: no layout begins with %q%s", path, name, has)
	}
	return cachefile.Digest{}, layoutError{err}
}

// listedLayout returns the layout of a reference whose fingerprint begins with name, or this machine's. A whole
// fingerprint need not be among them: pulling it says so.
func listedLayout(ctx context.Context, ref, name string, o *registry.Options) (registry.Fingerprint, error) {
	if name == current {
		return layoutHere()
	}
	if whole, err := registry.ParseFingerprint(strings.ToLower(name)); err == nil {
		return whole, nil
	}
	if strings.Trim(strings.ToLower(name), "0123456789abcdef") != "" {
		return registry.Fingerprint{}, usagef("--layout %s: not the beginning of 32 hexadecimal digits", name)
	}
	listed, err := registry.List(ctx, ref, o)
	if err != nil {
		return registry.Fingerprint{}, err
	}
	var layouts []cachefile.Layout
	for _, l := range listed {
		if l.LiteRT == "" {
			layouts = append(layouts, cachefile.Layout{Fingerprint: l.Fingerprint, Description: l.Description})
		}
	}
	return selectLayout(ref, layouts, name)
}

// layoutByProcessor returns the one layout of a reference that was packed on a processor such as this one, and why it
// is chosen. It is for where XNNPACK cannot be asked: programs ask it, and use nothing that does not fit.
func layoutByProcessor(ctx context.Context, ref string, o *registry.Options) (_ registry.Fingerprint, why string,
	err error) {
	listed, err := registry.List(ctx, ref, o)
	if err != nil {
		return registry.Fingerprint{}, "", err
	}
	listed = slices.DeleteFunc(listed, func(l registry.Layout) bool { return l.LiteRT != "" })
	var like []registry.Layout
	var all []string
	for _, l := range listed {
		if processor, _, _ := strings.Cut(l.Description, ", "); processor == cpu.Name() {
			like = append(like, l)
		}
		all = append(all, fmt.Sprintf("%s (%s)", l.Fingerprint, console.Printable(l.Description)))
	}
	how := "packed on a processor such as this one, " + cpu.Name()
	if len(like) == 1 {
		return like[0].Fingerprint, fmt.Sprintf("the only one of %d %s", len(listed), how), nil
	}
	return registry.Fingerprint{}, "", layoutError{fmt.Errorf("%s: %d of %s were %s; name one with --layout: %s",
		ref, len(like), console.Plural(len(listed), "layout"), how, strings.Join(all, ", "))}
}

// completeLayouts completes fingerprints of the file that the command line names.
func completeLayouts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := []string{current + "\tthis machine's"}
	if len(args) > 0 {
		_ = withFile(args[0], func(f *cachefile.File) error {
			info, err := f.Info()
			for _, l := range info.Layouts {
				names = append(names, fmt.Sprintf("%s\t%s, %s", l.Fingerprint, console.Printable(l.Description),
					console.Plural(l.Entries, "entry")))
			}
			return err
		})
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// layoutFlag completes a flag that takes layouts.
func layoutFlag(cmd *cobra.Command, flag string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, completeLayouts); err != nil {
		panic(err) // no such flag
	}
}

// A layoutTable shows what a registry has of layouts.
type layoutTable struct {
	console.Table
	w     io.Writer
	width int // of the terminal that w is, else 0
	here  string

	marked []int // rows of this machine's
}

const thisMachines = " (this machine's)"

func (r referred) newLayoutTable(w io.Writer) *layoutTable {
	t := &layoutTable{w: w, width: terminal.Width(w), here: r.Here}
	t.Row("packed for", "layout", "entries", "payloads", "file", "")
	return t
}

// add adds a row for each layout, with what happened to it, and marks this machine's.
func (t *layoutTable) add(layouts []registry.Layout, what string) {
	for _, l := range layouts {
		name := console.Printable(l.Description)
		if l.Fingerprint.String() == t.here || isLiteRTHere(l) {
			t.marked = append(t.marked, len(t.Rows))
			name = strings.TrimSpace(name + thisMachines)
		}
		t.Row(name, layoutCell(l.Fingerprint, t.width), fmt.Sprint(l.Entries), console.Size(l.PayloadBytes),
			console.Size(l.FileBytes), what)
	}
}

func (t *layoutTable) print() {
	if t.width > 0 {
		t.LeaveOut(t.width, "payloads") // the file is hardly larger
	}
	if room := t.Room(t.width); t.width > 0 && t.Widest(0) > room {
		for _, i := range t.marked { // the mark stays whole
			name := strings.TrimSuffix(t.Rows[i][0], thisMachines)
			t.Rows[i][0] = console.Beginning(name, room-len(thisMachines)) + thisMachines
		}
	}
	t.Fit(t.width)
	_ = t.Print(t.w)
}

// layoutCell is a fingerprint in a table: whole for who reads it from a pipe, the beginning on a terminal.
func layoutCell(fingerprint cachefile.Digest, width int) string {
	if width == 0 {
		return fingerprint.String()
	}
	return fingerprint.String()[:shortLayout]
}

// layoutHere returns the fingerprint of this machine's layout.
func layoutHere() (registry.Fingerprint, error) {
	l, err := xpwc.CurrentLayout()
	return l.Fingerprint, err
}
