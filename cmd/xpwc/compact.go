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
		Long: `Rewrites a cache file without dead bytes (old indexes, replaced weights) and without
payloads whose checksum is wrong. Programs that use the old file are not disturbed, and
find the new one with their next session. Caches do this by themselves when a quarter of
their bytes is dead.

If the file cannot be rewritten, it is as it was. An interrupt waits until it is
rewritten.`,
		Example: `  xpwc compact model.xpwc
  xpwc compact model.xpwc --wait 5m --json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return rewrite(cmd.Context(), args[0], o, (*xpwc.Cache).Compact)
		},
	}
	o.flags(cmd)
	return cmd
}
