package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/models/litert"
)

type reportOptions struct {
	out string
	placing
}

func newReportCommand() *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report FILE -o PAGE",
		Short: "Make a page about a cache file, to look at in a browser",
		Long: `Makes a page about a cache file: what its bytes are by layer, as a treemap to zoom into,
for which layouts they were packed, what is stored once for several entries, what is
dead, and what each commit added that is still in the file. FILE is what xpwc
inspect takes, but for programs. It is neither changed nor locked: it may be in use.

PAGE is one file of HTML, which asks for nothing from the network. It has names of tensors
and the path FILE, and no weights. However many entries there are it has at most 4 MiB:
layers that are small are put together, and tables end. An existing PAGE is replaced if it
is empty or such a page.

Exits with 1 if FILE cannot be read, or if a part that was read is damaged. PAGE is made
then too, unless FILE cannot be opened.`,
		Example: `  xpwc report model.xpwc -o report.html
  xpwc report model.packed_cache -o report.html --mode 0644`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.out == "":
				return usagef("-o PAGE is missing, for instance -o report.html")
			case modelfile.File{Path: args[0]}.Program():
				return usagef("%s is a program; xpwc inspect shows what is in it", args[0])
			}
			return makeReport(cmd.Context(), args[0], o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&o.out, "output", "o", "", "`PAGE` to write")
	o.placing.flags(cmd)
	return cmd
}

// makeReport writes the page, and returns an error after that if the file is damaged.
func makeReport(ctx context.Context, path string, o reportOptions, stdout io.Writer) error {
	page, damage, err := renderReport(path)
	if err != nil {
		return err
	}
	s, err := newReplacing(ctx, o.out, o.placing, onlyReports, path)
	if err != nil {
		return err
	}
	defer s.discard()
	if _, err := s.Write(page); err != nil {
		return err
	}
	if err := s.publish(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %s about %s\n", o.out, console.Size(int64(len(page))), path)
	return damage
}

// renderReport returns the page, and as damage what is wrong with the file.
func renderReport(path string) (page []byte, damage, err error) {
	shown := htmlreport.Options{Path: console.Printable(path), Created: time.Now(), Tool: "xpwc " + xpwc.Version}
	if current, err := xpwc.CurrentLayout(); err == nil {
		shown.Current = current.Fingerprint
	}
	var b bytes.Buffer
	err = withShown(path, func(f shownFile, loc location) error {
		if l, ok := f.(litertCache); ok && l.file.Stale {
			shown.Notes = append(shown.Notes, staleLiteRT)
			damage = fmt.Errorf("%s: %s: %w", path, staleLiteRT, litert.ErrDamaged)
		}
		if loc.in != nil {
			shown.Notes = append(shown.Notes, loc.in.note())
		}
		damaged, err := htmlreport.Write(&b, f, shown)
		if n := len(damaged); n > 0 {
			damage = damagedError{fmt.Errorf("%s is damaged: %s; xpwc verify reports where", path,
				console.Plural(n, "entry"))}
		}
		return err
	})
	return b.Bytes(), damage, err
}

// onlyReports is replaces for pages that this command has written.
func onlyReports(existing *os.File) error {
	head, err := io.ReadAll(io.LimitReader(existing, 1<<10))
	if err != nil {
		return err
	}
	if !bytes.Contains(head, []byte(htmlreport.Mark)) {
		return leftAsItIs(fmt.Errorf("%s is no page of xpwc report", existing.Name()))
	}
	return nil
}
