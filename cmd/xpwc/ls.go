package main

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/internal/console"
	"xpwc/registry"
)

// listing is the result of xpwc ls.
type listing struct {
	referred
	Layouts []registry.Layout `json:"layouts"`
	Tags    []string          `json:"tags,omitempty"` // of a repository, in place of layouts

	ofRepository bool
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
			client := o.client(cmd, newProgress(cmd.Context(), ""))
			found := listing{referred: newReferred(args[0]), Layouts: []registry.Layout{}}
			var err error
			if strings.ContainsAny(path.Base(args[0]), ":@") {
				found.Layouts, err = registry.List(cmd.Context(), args[0], client)
			} else {
				found.Tags, err = registry.Tags(cmd.Context(), args[0], client)
				found.ofRepository = true
			}
			if err != nil {
				return err
			}
			setResult(cmd.Context(), found)
			return nil
		},
	}
	o.flags(cmd)
	return cmd
}

func (l listing) print(w io.Writer) {
	for _, tag := range l.Tags {
		fmt.Fprintln(w, console.Printable(tag))
	}
	if !l.ofRepository {
		t := newLayoutTable(w, l.Here, "file")
		t.addListed(l.Layouts, "")
		t.print()
	}
}
