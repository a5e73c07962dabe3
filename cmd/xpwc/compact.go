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
payloads whose checksum is wrong. The new file takes the place of the old one by a rename:
programs that use the old one are not disturbed, and find the new one with their next
session. Caches do this by themselves when a quarter of their bytes is dead.

If another program is writing to the file, waits for it up to --wait. Exits with 1 if the
file cannot be rewritten; then it is as it was. An interrupt waits until it is rewritten.`,
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
