package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
)

// What the commands that look into cache files and rewrite them have in common.

// current is what this machine's layout is called on the command line.
const current = "current"

// printJSON prints what a command found out.
func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON in place of text")
}

// withFile calls do with an open cache file, or with the packed weights in a safetensors file.
func withFile(path string, do func(f *cachefile.File) error) error {
	at, err := locate(path)
	if err != nil {
		return err
	}
	return at.with(do)
}

// selectLayout finds the layout of a file that a beginning of its fingerprint means, or the word current. The error says which
// layouts there are.
func selectLayout(path string, layouts []cachefile.Layout, name string) (cachefile.Digest, error) {
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
		return cachefile.Digest{}, fmt.Errorf("%s: several layouts begin with %q%s", path, name, has)
	case name == current:
		return cachefile.Digest{}, fmt.Errorf("%s has no entries of this machine's layout, %s%s", path, prefix, has)
	}
	return cachefile.Digest{}, fmt.Errorf("%s: no layout begins with %q%s", path, name, has)
}

// completeLayouts completes fingerprints of the file that the command line names.
func completeLayouts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := []string{current + "\tthis machine's"}
	if len(args) > 0 {
		_ = withFile(args[0], func(f *cachefile.File) error {
			info, err := f.Info()
			for _, l := range info.Layouts {
				names = append(names, fmt.Sprintf("%s\t%s, %s", l.Fingerprint, console.Printable(l.Description), console.Plural(l.Entries, "entry")))
			}
			return err
		})
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeWords completes the values of a flag.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // no such flag
	}
}

// layoutFlag completes a flag that takes layouts.
func layoutFlag(cmd *cobra.Command, flag string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, completeLayouts); err != nil {
		panic(err) // no such flag
	}
}

// parseSize reads sizes such as 200MiB, 1.5 GB and 4096.
func parseSize(flag, text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<62 || strings.HasPrefix(strings.TrimSpace(text), "-") {
		return 0, usagef("--%s %s: not a size; write it like 200MiB", flag, text)
	}
	return int64(n), nil
}
