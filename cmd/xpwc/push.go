package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/models/litert"
	"xpwc/registry"
)

func newPushCommand() *cobra.Command {
	var o registryOptions
	subject := ""
	var litert litertProof
	var targets []string
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
so --model is packed for the CPU that --cpu or --target names, and FILE must be equal to
that, byte for byte. A tag has LiteRT's files of one model only, one for each CPU.

` + refHelp,
		Example: `  xpwc push registry.example/models/pose:v3 pose.xpwc
  xpwc push localhost:5000/pose:v3 haswell.xpwc icelake.xpwc --json
  xpwc push registry.example/models/pose:v3-packed pose.xpwc --subject v3
  xpwc push localhost:5000/pose:v3 pose.litert_cache --model pose.tflite
  xpwc push localhost:5000/pose:v3 f --model pose.tflite --target arm64:a76`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			level, err := levelOf(cmd, litert.cpu, targets)
			if err != nil {
				return err
			}
			litert.cpu = level
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
	targetFlag(cmd, &targets, "of a file for LiteRT that it is for")
	return cmd
}

// pushing is the result of xpwc push.
type pushing struct {
	referred
	Files []string `json:"files"`
	*registry.Pushed
}

func (p pushing) print(w io.Writer) {
	t := newLayoutTable(w, p.Current, "file")
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

// A litertProof is what a file for LiteRT is compared with before it is pushed.
type litertProof struct {
	model   modelfile.File
	cpu     string // level that the file is for
	library string
}

func (p *litertProof) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&p.model, "model", "of a file for LiteRT: the `MODEL` (.tflite) to pack and compare it with")
	f.StringVar(&p.cpu, "cpu", native, "of a file for LiteRT: CPU `LEVEL` it is for: "+levelNames())
	libraryFlag(cmd, &p.library)
}

// check reports whether a file for LiteRT is to be pushed. It is the only one then.
func (p *litertProof) check(files []string) (bool, error) {
	if p.model.Path == "" && !slices.ContainsFunc(files, litert.IsCache) {
		return false, nil
	}
	if p.model.Path == "" {
		return false, usagef("%s: LiteRT, which such a file is for, does not compare models: give --model, the model "+
			"that it was packed from, to be compared with it", files[0])
	}
	if len(files) > 1 {
		return false, usagef("files for LiteRT are pushed one by one, each with its --cpu")
	}
	if err := errors.Join(checkModel(p.model), checkLiteRTModel(p.model), checkLevel(p.cpu)); err != nil {
		return false, err
	}
	_, err := litert.Open(files[0])
	return true, err
}

// push is registry.Push for a file for LiteRT.
func (p *litertProof) push(ctx context.Context, ref string, paths []string,
	o *registry.Options) (*registry.Pushed, error) {
	packer, err := newLiteRTPacker(p.library, p.cpu)
	if err != nil {
		return nil, err
	}
	origin, err := newPackedFor(p.model, p.cpu)
	if err != nil {
		return nil, err
	}
	sum, _, err := sha256Of(paths[0])
	if err != nil {
		return nil, err
	}
	if err := errors.Join(mustProve(ctx, paths[0], p.model, p.cpu, p.library), origin.check()); err != nil {
		return nil, err
	}
	file := registry.LiteRTFile{Path: paths[0], SHA256: sum, For: litertTarget(packer.release, p.cpu),
		Model: origin.Files[0].SHA256}
	return registry.PushLiteRT(ctx, ref, file, o)
}

// mustProve returns an error if a file for LiteRT is not what a model is packed into, byte for byte.
func mustProve(ctx context.Context, path string, model modelfile.File, cpu, library string) error {
	p, err := proveLiteRTAt(ctx, path, model, cpu, library)
	if err != nil {
		return err
	}
	if !p.holds() {
		return fmt.Errorf("%s: %w, %s for CPU %s; xpwc verify --model says what differs, and "+
			"xpwc pack --for litert writes the right one", path, errUnproven, model, cpu)
	}
	return nil
}
