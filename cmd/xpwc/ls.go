package main

import (
	"github.com/spf13/cobra"

	"xpwc/internal/console"
	"xpwc/registry"
)

func newLsCommand() *cobra.Command {
	var o registryOptions
	cmd := &cobra.Command{
		Use:     "ls REF",
		Short:   "List the layouts that an OCI registry has packed weights of",
		Long:    "Lists the layouts that a reference in an OCI registry has packed weights of.\n\n" + refHelp,
		Example: `  xpwc ls registry.example/models/pose:v3`,
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			layouts, err := registry.List(cmd.Context(), args[0], o.client(cmd, console.NewProgress(cmd.ErrOrStderr(), "")))
			if err != nil {
				return err
			}
			return o.report(cmd.OutOrStdout(), layouts, func() error {
				here, _ := layoutHere() // without XNNPACK none is marked
				t := layoutTable()
				addLayouts(&t, layouts, "", here)
				return t.Print(cmd.OutOrStdout())
			})
		},
	}
	o.flags(cmd)
	return cmd
}
