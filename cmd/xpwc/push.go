package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/registry"
)

func newPushCommand() *cobra.Command {
	var o registryOptions
	subject := ""
	cmd := &cobra.Command{
		Use:   "push REF FILE...",
		Short: "Push cache files to an OCI registry",
		Long: `Adds the packed weights of cache files to a tag in an OCI registry, one file for each
layout, so that each node of a fleet pulls what its CPU needs. Layouts of the tag that the
files do not have are kept, so that each kind of node can add its own; the others are
replaced. What the registry has already is not uploaded again. Several machines may push
to one tag at the same time: each looks once more, after a random time, whether the tag
has its layouts, and pushes again if not. A registry cannot do more: a push that looked
before and takes far longer can still undo another. xpwc ls shows what the tag has.

--subject names the model's own artifact in the same repository. The registry then lists
the packed weights among what refers to the model, for tools that copy or delete both. A
tag keeps its subject until another is given.

` + refHelp,
		Example: `  xpwc push registry.example/models/pose:v3 pose.xpwc
  xpwc push localhost:5000/pose:v3 haswell.xpwc icelake.xpwc --json
  xpwc push registry.example/models/pose:v3-packed pose.xpwc --subject v3`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return pushFiles(cmd, args[0], args[1:], subject, &o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&subject, "subject", "", "`TAG` or digest of what the packed weights belong to")
	return cmd
}

// pushing is the result of xpwc push.
type pushing struct {
	referred
	Files []string `json:"files"`
	*registry.Pushed
}

func pushFiles(cmd *cobra.Command, ref string, files []string, subject string, o *registryOptions,
	stdout, stderr io.Writer) error {
	jobOf(cmd.Context()).waitFor("")
	progress := terminal.NewProgress(stderr, "uploading")
	client := o.client(cmd, progress)
	client.Subject = subject
	pushed, err := registry.Push(cmd.Context(), ref, files, client)
	progress.Finish()
	if err != nil {
		return err
	}
	return o.report(cmd.Context(), pushing{newReferred(ref), files, pushed}, func() error {
		here, _ := layoutHere() // where XNNPACK cannot run, no layout is marked
		t := newLayoutTable(stdout, here)
		t.add(pushed.Layouts, "pushed")
		t.add(pushed.Kept, "kept")
		if err := t.print(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(stdout, "\nuploaded  %s\ndigest    %s\n", console.Size(pushed.UploadedBytes),
			pushed.Digest)
		return err
	})
}
