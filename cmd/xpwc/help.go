package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

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

// fold breaks a line that is longer than width. What follows begins where the line's second column does, or where the
// line does.
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

// withoutXNNPACK makes the commands of root that need XNNPACK say so, in their help and when they are used.
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
		case "run", "demo", "bench", "measure", "pack", "pack-into", "strip", "layout":
			c.Short += " (not in this build)"
			c.Long = "Not in this build, which has no XNNPACK.\n\n" + c.Long
			c.PreRunE = func(c *cobra.Command, _ []string) error {
				return without(c.CommandPath())
			}
		}
	}
}
