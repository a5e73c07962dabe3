package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func newManCommand(newRoot func() *cobra.Command) *cobra.Command {
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
			root := newRoot() // also where this one has no XNNPACK
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
