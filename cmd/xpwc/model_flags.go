package main

import (
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
