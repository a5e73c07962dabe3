package main

import (
	"github.com/spf13/cobra"

	"xpwc/internal/bench"
)

// newMeasureCommand is the command of the processes that demo and bench start, one for each measurement.
func newMeasureCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.MeasureCommand,
		Hidden: true,
		Args:   usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Measure(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
