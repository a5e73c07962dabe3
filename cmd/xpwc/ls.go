package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/registry"
)

// listing is the result of xpwc ls.
type listing struct {
	referred
	Layouts []registry.Layout `json:"layouts"`
	Tags    []string          `json:"tags,omitempty"` // of a repository, in place of layouts
}

func newLsCommand() *cobra.Command {
	var o registryOptions
	cmd := &cobra.Command{
		Use:   "ls REF",
		Short: "List the layouts of packed weights in an OCI registry",
		Long: `Lists the layouts of the packed weights that a reference in an OCI registry has. Of a
repository, HOST/NAME without a tag, it lists the tags.

` + refHelp,
		Example: `  xpwc ls registry.example/models/pose:v3
  xpwc ls registry.example/models/pose`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := terminal.NewProgress(cmd.ErrOrStderr(), "")
			if !strings.ContainsAny(path.Base(args[0]), ":@") {
				return listTags(cmd, args[0], &o, progress)
			}
			layouts, err := registry.List(cmd.Context(), args[0], o.client(cmd, progress))
			if err != nil {
				return err
			}
			return o.report(cmd.Context(), listing{newReferred(args[0]), layouts, nil}, func() error {
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

func listTags(cmd *cobra.Command, ref string, o *registryOptions, progress *terminal.Progress) error {
	tags, err := registry.Tags(cmd.Context(), ref, o.client(cmd, progress))
	if err != nil {
		return err
	}
	return o.report(cmd.Context(), listing{newReferred(ref), []registry.Layout{}, tags}, func() error {
		for _, tag := range tags {
			fmt.Fprintln(cmd.OutOrStdout(), console.Printable(tag))
		}
		return nil
	})
}
