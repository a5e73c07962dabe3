package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"xpwc/internal/bench/terminal"
)

// helpWidth is how many columns prose has at most, and unknownWidth where the terminal's are not known.
const (
	helpWidth    = 90
	unknownWidth = 80
)

// textWidth is how many columns prose has.
func textWidth(w io.Writer) int { return min(cmp.Or(terminal.Width(w), unknownWidth), helpWidth) }

// wrapHelp makes the help of all commands fit the terminal.
func wrapHelp(root *cobra.Command) {
	usage := root.UsageTemplate()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		w := cmd.OutOrStdout()
		width := textWidth(w)
		root.SetUsageTemplate(strings.ReplaceAll(usage, ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", width)))
		fmt.Fprintf(w, "%s\n\n%s", reflow(cmp.Or(cmd.Long, cmd.Short), width), cmd.UsageString())
	})
}

// unknownCommand is the error that args name no command of root.
func unknownCommand(root *cobra.Command, args []string) error {
	var like []string
	if len(args) == 1 {
		like = root.SuggestionsFor(args[0])
	}
	return usagef("unknown command %q%s", strings.Join(args, " "), meant("", like))
}

// reflow fills the paragraphs of a text anew. An indented line begins a paragraph of its own, which lines that are
// indented further continue.
func reflow(text string, width int) string {
	var paragraphs []string
	indent := -1 // of the last paragraph; -1 if it is complete
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		words := strings.TrimLeft(line, " ")
		at := len(line) - len(words)
		switch {
		case words == "":
			paragraphs, indent = append(paragraphs, ""), -1
		case indent >= 0 && (at > indent || at == 0 && indent == 0):
			paragraphs[len(paragraphs)-1] += " " + words
		default:
			paragraphs, indent = append(paragraphs, line), at
		}
		if at == 0 && strings.HasSuffix(words, "with") { // a list follows
			indent = -1
		}
	}
	for i, p := range paragraphs {
		paragraphs[i] = fold(p, width)
	}
	return strings.Join(paragraphs, "\n")
}

var lastColumn = regexp.MustCompile(`^ *\S.*?\S? {2,}`)

// fold breaks a line longer than width. Continuation lines are indented to the line's second column, or as the line
// is.
func fold(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	hang := len(line) - len(strings.TrimLeft(line, " "))
	head := lastColumn.FindString(line)
	if len(head) > 0 && len(head) < width/2 {
		hang = len(head)
	}
	out, row := line[:hang], hang
	for i, word := range strings.Fields(line[hang:]) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && row+1+n > width:
			out += "\n" + strings.Repeat(" ", hang)
			row = hang
		case i > 0:
			out += " "
			row++
		}
		out += word
		row += n
	}
	return out
}

// errWithoutXNNPACK is matched by the errors of commands that a program without XNNPACK does not have.
var errWithoutXNNPACK = errors.New("this xpwc was built without XNNPACK, and only looks after files and registries; " +
	"use one that was built with it (make build)")

// withoutXNNPACK marks the commands of root that need XNNPACK in their help, and makes them fail with
// errWithoutXNNPACK.
func withoutXNNPACK(root *cobra.Command) {
	root.Long += `

This xpwc was built without XNNPACK. It looks after files and registries. It does not pack
or run models, and this machine's layout is not known to it: pull takes the one that was
packed on a processor such as this one, and says so; where there are several, --layout
names one.`
	without := func(what string) error { return fmt.Errorf("%s: %w", what, errWithoutXNNPACK) }
	for _, c := range root.Commands() {
		c.PreRunE = func(c *cobra.Command, _ []string) error {
			for _, name := range []string{"model", "for"} {
				f := c.Flags().Lookup(name)
				// A pull for LiteRT writes what the registry has.
				asItIs := name == "for" && f != nil && f.Value.String() == forLiteRT
				if f != nil && f.Changed && !asItIs {
					return without(c.CommandPath() + " --" + name)
				}
			}
			return nil
		}
		switch c.Name() {
		case "run", "explain", "demo", "bench", "measure", "pack", "pack-into", "strip", "layout":
			c.Short += " (not in this build)"
			c.Long = "Not in this build, which has no XNNPACK.\n\n" + c.Long
			c.PreRunE = func(c *cobra.Command, _ []string) error {
				return without(c.CommandPath())
			}
		}
	}
}

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Writes a manual page of each command into a directory: xpwc.1, xpwc-inspect.1 and so on.
The directory is created if it is not there. SOURCE_DATE_EPOCH sets the date in the pages.`,
		Example: `  xpwc man /usr/local/share/man/man1
  xpwc man man && man ./man/xpwc-inspect.1`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			jobOf(cmd.Context()).waitFor("") // it is quick
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root := newWholeCommand() // also where this one has no XNNPACK
			root.DisableAutoGenTag = true
			root.Long = asMarkdown(root.Long)
			for _, c := range root.Commands() {
				c.Long = asMarkdown(c.Long)
				c.Flags().VisitAll(nameValue)
			}
			return doc.GenManTree(root, &doc.GenManHeader{Title: "XPWC", Section: "1", Source: "xpwc", Manual: "xpwc"},
				args[0])
		},
	}
}

// manualWidth is how many columns the lists of a manual page have. Its margins leave them on a terminal of 80.
const manualWidth = 66

// asMarkdown converts a help text for the manual's generator, which takes lines indented by four for a list.
func asMarkdown(text string) string {
	var lines []string
	list := false
	for line := range strings.SplitSeq(reflow(text, manualWidth), "\n") {
		begins := !list && strings.HasPrefix(line, "  ")
		list = strings.HasPrefix(line, "  ")
		if begins {
			lines = append(lines, "")
		}
		if list {
			line = "  " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// nameValue makes the manual's generator show a flag's value name, as the help does, instead of its default.
func nameValue(f *pflag.Flag) {
	name, usage := pflag.UnquoteUsage(f)
	if name == "" {
		return
	}
	if byDefault := f.DefValue; byDefault != "" && byDefault != "[]" && byDefault != "0" && byDefault != "0s" {
		usage += " (default " + byDefault + ")"
	}
	f.Usage, f.DefValue, f.Value = usage, name, unquoted{f.Value}
}

// unquoted is a value that the manual's generator does not quote as a string.
type unquoted struct{ pflag.Value }

func (unquoted) Type() string { return "name" }
