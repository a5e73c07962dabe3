package main

import (
	"context"
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
	var litert litertProof
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

FILEs may also be for LiteRT (xpwc pack --for litert), one for each of the CPUs that --cpu
names. They do not say what they are for, and LiteRT compares no model: so they are pushed
with --model, which is packed for each CPU, and each FILE must be equal to one of these,
byte for byte. A tag has LiteRT's files of one model only, beside cache files of xpwc.

` + refHelp,
		Example: `  xpwc push registry.example/models/pose:v3 pose.xpwc
  xpwc push localhost:5000/pose:v3 haswell.xpwc icelake.xpwc --json
  xpwc push registry.example/models/pose:v3-packed pose.xpwc --subject v3
  xpwc push localhost:5000/pose:v3 pose.litert_cache --model pose.tflite`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ofLiteRT, err := litert.check(args[1:])
			if err != nil {
				return err
			}
			push := registry.Push
			if ofLiteRT {
				push = litert.push(cmd.ErrOrStderr())
			}
			return pushFiles(cmd, args[0], args[1:], subject, &o, push, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&subject, "subject", "", "`TAG` or digest of what the packed weights belong to")
	litert.flags(cmd)
	return cmd
}

// pushing is the result of xpwc push.
type pushing struct {
	referred
	Files []string `json:"files"`
	*registry.Pushed
}

// A pusher is registry.Push, or pushes other files.
type pusher func(ctx context.Context, ref string, files []string, o *registry.Options) (*registry.Pushed, error)

func pushFiles(cmd *cobra.Command, ref string, files []string, subject string, o *registryOptions,
	push pusher, stdout, stderr io.Writer) error {
	jobOf(cmd.Context()).waitFor("")
	progress := terminal.NewProgress(stderr, "uploading")
	client := o.client(cmd, progress)
	client.Subject = subject
	pushed, err := push(cmd.Context(), ref, files, client)
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
		uploaded := console.Size(pushed.UploadedBytes)
		if pushed.UpToDate {
			uploaded = "nothing: the tag has all of this already"
		}
		_, err := fmt.Fprintf(stdout, "\nuploaded  %s\ndigest    %s\n", uploaded, pushed.Digest)
		return err
	})
}
