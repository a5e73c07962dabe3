package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

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
