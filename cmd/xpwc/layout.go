package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/emulator"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/cpu"
	"xpwc/models/executorch"
	"xpwc/models/litert"
	"xpwc/registry"
	"xpwc/xnnpack"
)

func newLayoutCommand() *cobra.Command {
	var targets []string
	cmd := &cobra.Command{
		Use:   "layout",
		Short: "Print this machine's layout, or those of arm64",
		Long: `Prints the fingerprint of the layout that this machine's CPU and this tool's XNNPACK have:
what packed weights must be packed for to be used here. It differs whenever packing does.
--json adds what it was found with.

With --target, it is that of the XNNPACK and the emulated CPU for which xpwc pack --target
packs. --target arm64 lists all CPUs by their layouts: those of one layout share a file.`,
		Example: `  xpwc layout
  xpwc layout --target arm64:a76
  xpwc layout --target arm64
  xpwc pull registry.example/models/pose:v3 -o pose.xpwc --layout $(xpwc layout)`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Equal(targets, []string{emulator.Architecture}) {
				return listLayouts(cmd.Context())
			}
			level, err := levelOf(cmd, native, targets)
			if err != nil {
				return err
			}
			l, err := layoutOn(cmd.Context(), level)
			if err != nil {
				return err
			}
			setResult(cmd.Context(), l)
			return nil
		},
	}
	targetFlag(cmd, &targets, "to ask XNNPACK about")
	jsonFlag(cmd)
	return cmd
}

// machineLayout is the result of xpwc layout.
type machineLayout struct {
	Layout      string `json:"layout"`
	Description string `json:"description"`
	XNNPACK     string `json:"xnnpack_build_identifier,omitempty"`

	Runtimes []stockRuntime `json:"runtimes,omitempty"` // that the tool packs for on this machine
}

func (l machineLayout) print(w io.Writer) { fmt.Fprintln(w, l.Layout) }

// A stockRuntime is a version of a stock runtime, and the CPU that a file for it here is for.
type stockRuntime struct {
	Runtime string `json:"runtime"` // value of --for
	Version string `json:"version"`
	CPU     string `json:"cpu"`              // level, or features
	Packer  string `json:"packer,omitempty"` // package whose library packs, if it is not this tool
}

// stockRuntimes returns the stock runtimes that the tool packs for on this machine.
func stockRuntimes() (runtimes []stockRuntime) {
	for _, r := range executorch.ReleasesOf(runtime.GOARCH, xnnpack.BuildIdentifier()) {
		runtimes = append(runtimes, stockRuntime{Runtime: forExecuTorch, Version: r.Version, CPU: cpu.Features()})
	}
	if r, ok := litert.Newest(runtime.GOARCH); ok {
		target := litertTarget(r, native)
		runtimes = append(runtimes, stockRuntime{forLiteRT, r.Version, target.CPU, r.Packer})
	}
	return runtimes
}

// sharedLayouts is the result of xpwc layout --target arm64: layouts, with the CPUs that share each.
type sharedLayouts struct {
	Architecture string         `json:"architecture"`
	XNNPACK      string         `json:"xnnpack_build_identifier,omitempty"`
	Layouts      []sharedLayout `json:"layouts"`
}

type sharedLayout struct {
	Layout string   `json:"layout"`
	CPUs   []string `json:"cpus"`
}

// listLayouts asks the emulated tool for the layout of each CPU, as many at a time as there are processors.
func listLayouts(ctx context.Context) error {
	names := cpu.Arm64Names()
	layouts := make([]machineLayout, len(names))
	progress := newProgress(ctx, "emulating")
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, name := range names {
		group.Go(func() (err error) {
			layouts[i], err = layoutOn(ctx, targetPrefix+name)
			progress.Update(done.Add(1), int64(len(names)))
			return err
		})
	}
	err := group.Wait()
	progress.Finish()
	if err != nil {
		return err
	}
	r := sharedLayouts{Architecture: emulator.Architecture, XNNPACK: layouts[0].XNNPACK}
	for i, name := range names {
		matches := func(s sharedLayout) bool { return s.Layout == layouts[i].Layout }
		row := slices.IndexFunc(r.Layouts, matches)
		if row < 0 {
			row = len(r.Layouts)
			r.Layouts = append(r.Layouts, sharedLayout{Layout: layouts[i].Layout})
		}
		r.Layouts[row].CPUs = append(r.Layouts[row].CPUs, name)
	}
	setResult(ctx, r)
	return nil
}

func (s sharedLayouts) print(w io.Writer) {
	for _, l := range s.Layouts {
		fmt.Fprintf(w, "%s  %s\n", l.Layout[:shortLayout], strings.Join(l.CPUs, ", "))
	}
}

// printVersion prints the tool's version and layout. XNNPACK has no version, only its build identifier.
func printVersion(w io.Writer) error {
	commit := ""
	if c := xpwc.Commit(); c != "" {
		commit = ", commit " + c
	}
	fmt.Fprintf(w, "xpwc version %s%s\n", xpwc.Version, commit)
	current, err := xpwc.CurrentLayout()
	if err != nil {
		_, err = fmt.Fprintf(w, "processor %s\n%s\n", cpu.Name(), explain(err))
		return err
	}
	if id := xnnpack.BuildIdentifier(); id != "" {
		fmt.Fprintf(w, "XNNPACK build %s\n", id)
	}
	_, err = fmt.Fprintf(w, "layout %s\npacks for %s\n", current.Fingerprint, current.Description)
	return err
}

// current is the name of this machine's layout on the command line.
const current = "current"

// selectLayout returns the layout of a file whose fingerprint begins with name, or this machine's if name is the word
// current. The error lists the layouts of the file.
func selectLayout(path string, layouts []cachefile.Layout, name string) (_ cachefile.Digest, err error) {
	prefix := strings.ToLower(name)
	if name == current {
		current, err := xpwc.CurrentLayout()
		if err != nil {
			return cachefile.Digest{}, err
		}
		prefix = current.Fingerprint.String()
	}
	var matches []cachefile.Digest
	for _, l := range layouts {
		if prefix != "" && strings.HasPrefix(l.Fingerprint.String(), prefix) {
			matches = append(matches, l.Fingerprint)
		}
	}
	list := "it has " + cmp.Or(textOf(layouts), "none")
	switch {
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) > 1:
		err = fmt.Errorf("%s: several layouts begin with %q; %s", path, name, list)
	case name == current:
		err = fmt.Errorf("%s has no entries of this machine's layout, %s; %s", path, prefix, list)
	default:
		err = fmt.Errorf("%s: no layout begins with %q; %s", path, name, list)
	}
	return cachefile.Digest{}, layoutError{err}
}

// textOf lists layouts.
func textOf(layouts []cachefile.Layout) string {
	var texts []string
	for _, l := range layouts {
		texts = append(texts, fmt.Sprintf("%s (%s)", l.Fingerprint, console.Printable(l.Description)))
	}
	return strings.Join(texts, ", ")
}

// listed returns a reference's layouts, without LiteRT's.
func listed(ctx context.Context, ref string, o *registry.Options) (layouts []cachefile.Layout, err error) {
	list, err := registry.List(ctx, ref, o)
	for _, l := range list {
		if l.LiteRT == "" {
			layouts = append(layouts, cachefile.Layout{Fingerprint: l.Fingerprint, Description: l.Description})
		}
	}
	return layouts, err
}

// listedLayout returns the layout of a reference whose fingerprint begins with name, or this machine's. A whole
// fingerprint is not looked up: pulling reports a missing one.
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
	layouts, err := listed(ctx, ref, o)
	if err != nil {
		return registry.Fingerprint{}, err
	}
	return selectLayout(ref, layouts, name)
}

// layoutByProcessor returns the one layout of a reference that was packed on this processor model, and the reason of
// the choice. It serves where XNNPACK cannot be asked. Programs ask XNNPACK and use nothing that does not fit.
func layoutByProcessor(ctx context.Context, ref string, o *registry.Options) (_ registry.Fingerprint, reason string,
	err error) {
	layouts, err := listed(ctx, ref, o)
	if err != nil {
		return registry.Fingerprint{}, "", err
	}
	var matches []cachefile.Digest
	for _, l := range layouts {
		if processor, _, _ := strings.Cut(l.Description, ", "); processor == cpu.Name() {
			matches = append(matches, l.Fingerprint)
		}
	}
	const basis = "packed on a processor such as this one"
	if len(matches) == 1 {
		return matches[0], fmt.Sprintf("the only one of %d %s", len(layouts), basis), nil
	}
	return registry.Fingerprint{}, "", layoutError{fmt.Errorf("%s: %d of %s %s, %s; name one with --layout: %s",
		ref, len(matches), console.Plural(len(layouts), "layout"), basis, cpu.Name(), textOf(layouts))}
}

// A layoutTable shows layouts, and marks this machine's.
type layoutTable struct {
	console.Table
	w       io.Writer
	width   int // of the terminal that w is, else 0
	current string
}

// newLayoutTable returns a table with extra columns. The last column has remarks.
func newLayoutTable(w io.Writer, current string, columns ...string) *layoutTable {
	t := &layoutTable{w: w, width: terminal.Width(w), current: current}
	t.Row(append(append([]string{"packed for", "XNNPACK", "layout", "entries", "payloads"}, columns...), "")...)
	return t
}

// add adds a layout. A terminal gets the first digits of the fingerprint; a pipe gets all of them.
func (t *layoutTable) add(fingerprint cachefile.Digest, description string, entries, payloads int64, cells ...string) {
	text := fingerprint.String()
	if forLiteRT, err := litertHere(); text == t.current || err == nil && fingerprint == forLiteRT.Layout() {
		cells[len(cells)-1] = strings.TrimPrefix(cells[len(cells)-1]+", this machine's", ", ")
	}
	if t.width > 0 {
		text = text[:shortLayout]
	}
	processor, build, _ := strings.Cut(console.Printable(description), ", ")
	build = cmp.Or(strings.TrimPrefix(build, "XNNPACK "), console.Blank)
	first := []string{processor, build, text, fmt.Sprint(entries), console.Size(payloads)}
	t.Row(append(first, cells...)...)
}

// addListed adds a registry's layouts, with their outcome.
func (t *layoutTable) addListed(layouts []registry.Layout, outcome string) {
	for _, l := range layouts {
		t.add(l.Fingerprint, l.Description, l.Entries, l.PayloadBytes, console.Size(l.FileBytes), outcome)
	}
}

func (t *layoutTable) print() {
	if slices.Contains(t.Rows[0], "file") { // the file is hardly larger than the payloads
		t.LeaveOut(t.width, "payloads")
	}
	t.LeaveOut(t.width, "entries", "file", "XNNPACK")
	t.Fit(t.width)
	t.Print(t.w)
}

// layoutHere returns the fingerprint of this machine's layout.
func layoutHere() (registry.Fingerprint, error) {
	l, err := xpwc.CurrentLayout()
	return l.Fingerprint, err
}

// shortLayout is how many digits of a fingerprint tables have: enough to distinguish layouts, and to name them with
// --layout.
const shortLayout = 8
