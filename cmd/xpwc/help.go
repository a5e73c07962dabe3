package main

import (
	"cmp"
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
	var matches []string
	if len(args) == 1 {
		matches = root.SuggestionsFor(args[0])
	}
	return usagef("unknown command %q%s", strings.Join(args, " "), meant("", matches))
}

// reflow fills the paragraphs of a text anew. An indented line begins a paragraph of its own, which lines that are
// indented further continue.
func reflow(text string, width int) string {
	var paragraphs []string
	indent := -1 // of the last paragraph; -1 if it is complete
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		words := strings.TrimLeft(line, " ")
		start := len(line) - len(words)
		switch {
		case words == "":
			paragraphs, indent = append(paragraphs, ""), -1
		case indent >= 0 && (start > indent || start == 0 && indent == 0):
			paragraphs[len(paragraphs)-1] += " " + words
		default:
			paragraphs, indent = append(paragraphs, line), start
		}
		if start == 0 && strings.HasSuffix(words, "with") { // a list follows
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

// meant suggests one of some names; without names it is empty.
func meant(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}
