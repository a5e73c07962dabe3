package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

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
files do not have are kept; the others are replaced. What the registry has already is not
uploaded again. Several machines may push to one tag at the same time: each looks again
whether the tag has its layouts. A push that takes far longer than others can still undo
one of them: xpwc ls shows what the tag has.

--subject names the model's own artifact in the same repository. The registry then lists
the packed weights among what refers to the model. A tag keeps its subject until another
is given.

One FILE may also be for LiteRT (xpwc pack --for litert). It does not say what it is for:
so --model is packed for the CPU that --cpu names, and FILE must be equal to that, byte
for byte. A tag has LiteRT's files of one model only, one for each CPU.

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
				push = litert.push
			}
			jobOf(cmd.Context()).waitFor("")
			progress := newProgress(cmd.Context(), "uploading")
			client := o.client(cmd, progress)
			client.Subject = subject
			pushed, err := push(cmd.Context(), args[0], args[1:], client)
			progress.Finish()
			if err != nil {
				return ofModel(err)
			}
			setResult(cmd.Context(), pushing{newReferred(args[0]), args[1:], pushed})
			return nil
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

func (p pushing) print(w io.Writer) {
	t := newLayoutTable(w, p.Here, "file")
	t.addListed(p.Layouts, "pushed")
	t.addListed(p.Replaced, "replaced")
	t.addListed(p.Kept, "kept")
	t.print()
	uploaded := console.Size(p.UploadedBytes)
	if p.UpToDate {
		uploaded = "nothing: the tag has all of this already"
	}
	fmt.Fprintf(w, "\nuploaded  %s\ndigest  %s\n", uploaded, p.Digest)
}
