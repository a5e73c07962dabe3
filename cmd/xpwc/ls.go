package main

import (
	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
	"xpwc/registry"
)

// listing is the result of xpwc ls.
type listing struct {
	referred
	Layouts []registry.Layout `json:"layouts"`
}

func newLsCommand() *cobra.Command {
	var o registryOptions
	cmd := &cobra.Command{
		Use:     "ls REF",
		Short:   "List the layouts of packed weights in an OCI registry",
		Long:    "Lists the layouts of the packed weights that a reference in an OCI registry has.\n\n" + refHelp,
		Example: `  xpwc ls registry.example/models/pose:v3`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := terminal.NewProgress(cmd.ErrOrStderr(), "")
			layouts, err := registry.List(cmd.Context(), args[0], o.client(cmd, progress))
			if err != nil {
				return err
			}
			return o.report(cmd.Context(), listing{newReferred(args[0]), layouts}, func() error {
				here, _ := layoutHere() // where XNNPACK cannot run, no layout is marked
				t := newLayoutTable(cmd.OutOrStdout(), here)
				t.add(layouts, "")
				return t.print()
			})
		},
	}
	o.flags(cmd)
	return cmd
}
