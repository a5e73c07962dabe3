package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"xpwc/internal/modelfile"
)

func descriptionFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "description", "", "description `FILE` of a safetensors file (default MODEL.json)")
}

func threadsFlag(cmd *cobra.Command, n *int) {
	cmd.Flags().IntVar(n, "threads", 1, "number `N` of threads to compute with, 0 for one for each processor")
}

func checkThreads(n int) error {
	if n < 0 || n > 1<<10 {
		return usagef("--threads %d: must be from 0 to %d", n, 1<<10)
	}
	return nil
}

// checkModel checks the flag --description.
func checkModel(f modelfile.File) error {
	if f.Description != "" && !f.Described() {
		return usagef("--description is for .safetensors files and their index, not for %s", f.Path)
	}
	return nil
}

// printJSON prints the result of a command.
func printJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON in place of text")
}

// completeWords completes the values of a flag.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
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
