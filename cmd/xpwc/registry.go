package main

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/registry"
)

// registryOptions are the flags of commands that use a registry.
type registryOptions struct {
	plainHTTP bool
	silence   time.Duration
}

const refHelp = `REF is HOST/NAME:TAG, as with docker; the default of TAG is latest. Credentials are those
that docker login has stored. TLS is not used for a registry on this machine; --plain-http
turns it off for others.`

func (o *registryOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.plainHTTP, "plain-http", false, "do not use TLS (default for a registry on this machine)")
	cmd.Flags().DurationVar(&o.silence, "timeout", registry.DefaultSilence,
		"how long the registry may be silent, as a `DURATION` such as 30s")
	jsonFlag(cmd)
}

// client returns the options of package registry, which show progress.
func (o *registryOptions) client(cmd *cobra.Command, progress *terminal.Progress) *registry.Options {
	client := &registry.Options{Progress: progress.Update, Silence: o.silence}
	if cmd.Flags().Changed("plain-http") {
		client.PlainHTTP = &o.plainHTTP
	}
	return client
}

// A referred is what a reference leads to, and this machine's layout, if that is known.
type referred struct {
	Reference string `json:"reference"`
	Here      string `json:"current_layout,omitempty"`
}

func newReferred(ref string) referred {
	r := referred{Reference: ref}
	if here, err := layoutHere(); err == nil { // otherwise XNNPACK cannot run here
		r.Here = here.String()
	}
	return r
}

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
			client := o.client(cmd, newProgress(cmd.Context(), ""))
			found := listing{referred: newReferred(args[0]), Layouts: []registry.Layout{}}
			var err error
			if strings.ContainsAny(path.Base(args[0]), ":@") {
				found.Layouts, err = registry.List(cmd.Context(), args[0], client)
			} else {
				found.Tags, err = registry.Tags(cmd.Context(), args[0], client)
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
	if len(l.Tags) == 0 {
		t := newLayoutTable(w, l.Here, "file")
		t.addListed(l.Layouts, "")
		t.print()
	}
}
