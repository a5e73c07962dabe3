package main

import (
	"github.com/spf13/cobra"

	"xpwc"
)

func newCompactCommand() *cobra.Command {
	var o rewriteOptions
	cmd := &cobra.Command{
		Use:   "compact FILE",
		Short: "Rewrite a cache file without its dead bytes",
		Long: `Rewrites a cache file without dead bytes (old indexes, superseded weights) and without payloads whose checksum is wrong. The new
file takes the old one's place by a rename: programs that use the old one go on, and find the new one with their next session.
Caches do this by themselves when a quarter of their bytes is dead.

Waits for another program that is writing to the file, up to --wait. Exits with 1 if it cannot be done; the file is then as it was.`,
		Example: `  xpwc compact model.xpwc
  xpwc compact model.xpwc --wait 5m --json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return rewrite(cmd.Context(), args[0], o, cmd.OutOrStdout(), (*xpwc.Cache).Compact)
		},
	}
	o.flags(cmd)
	return cmd
}
