package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"xpwc/internal/modelfile"
)

func descriptionFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "description", "",
		"description `FILE` of .safetensors or .ptd (default MODEL.json)")
}

func dataFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVar(paths, "data", nil, "`FILE` (.ptd) with weights of a program; may be repeated")
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

// checkModel checks that the flags given with a model fit its kind.
func checkModel(f modelfile.File) error {
	switch {
	case f.Description != "" && !f.Described():
		return usagef("--description is for models of tensors (.safetensors or an index, .ptd), "+
			"not for %s", f.Path)
	case f.Method != "" && !f.Program() && !hasSignatures(f):
		return usagef("--method is for programs (.pte), .tflite files and bundles, not for %s", f.Path)
	case len(f.Shapes) > 0 && !hasSignatures(f):
		return usagef("--shape is for .tflite files and bundles, not for %s", f.Path)
	case len(f.Data) > 0 && !f.Program():
		return usagef("%s: DATA are the .ptd files of a program (.pte), and %s is none", f.Data[0], f.Path)
	}
	return nil
}

// hasSignatures reports whether a model is of the kind that has signatures, whose inputs can be given shapes.
func hasSignatures(f modelfile.File) bool {
	return strings.EqualFold(filepath.Ext(f.Path), ".tflite") || f.Bundle()
}

// modelArgs checks the arguments of a command: a file, and only after a program its .ptd files.
func modelArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 && (modelfile.File{Path: args[0]}).Program() {
		return nil
	}
	return cobra.ExactArgs(1)(cmd, args)
}

// optionalModelArgs is modelArgs for a command with a model of its own.
func optionalModelArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return modelArgs(cmd, args)
}

func methodFlag(cmd *cobra.Command, method *string) {
	cmd.Flags().StringVar(method, "method", "",
		"`NAME` of the method of a program, or the signature of a .tflite, to run (default its only one, or forward)")
}

// shapeFlag is --shape, for the inputs of a .tflite in the order of the model.
func shapeFlag(cmd *cobra.Command, shapes *[][]int) {
	cmd.Flags().Var((*shapeList)(shapes), "shape",
		"`SHAPE` of an input of a .tflite, as 1x16000, or - for the file's; given once for each")
}

// shapeList is the value of --shape.
type shapeList [][]int

// String implements [pflag.Value].
func (l *shapeList) String() string { return "" }

// Type implements [pflag.Value].
func (l *shapeList) Type() string { return "shape" }

// Set implements [pflag.Value].
func (l *shapeList) Set(text string) error {
	var shape []int
	if text != "-" {
		for dim := range strings.SplitSeq(text, "x") {
			n, err := strconv.Atoi(dim)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no shape; write it like 1x16000", text)
			}
			shape = append(shape, n)
		}
	}
	*l = append(*l, shape)
	return nil
}

// parseSize reads sizes such as 200MiB, 1.5 GB and 4096.
func parseSize(flag, text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<62 || strings.HasPrefix(strings.TrimSpace(text), "-") {
		return 0, usagef("--%s %s: not a size; write it like 200MiB", flag, text)
	}
	return int64(n), nil
}
