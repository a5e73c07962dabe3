package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/registry"
)

type pullOptions struct {
	registryOptions
	output, layout string
	runtime        string // runtime that the file is for; "" for runtimes with this project's cache
	library        string // LiteRT's, for model; "" for the installed one
	sealed         bool
	maxBytes       int64 // 0 for no limit
	placing
	model modelfile.File
	level string // native, or the target that is pulled for
	// layoutOfTarget asks the emulated tool, once.
	layoutOfTarget func() (machineLayout, error)
}

func newPullCommand() *cobra.Command {
	var o pullOptions
	var targets []string
	maxSize := ""
	cmd := &cobra.Command{
		Use:   "pull REF -o FILE",
		Short: "Pull this machine's packed weights from an OCI registry",
		Long: `Writes the packed weights that a reference in an OCI registry has for this machine's
layout to a cache file. The file is checked completely, and then appears by a rename:
programs that use an old file there find the new one with their next session. If the
reference has nothing for the layout, the exit code is 1 and the error lists what it has.
If FILE has exactly that already it is left as it is, so that new processes share its
pages with old ones.

Who can write to the registry decides what the model computes. With --model you need not
trust them: the model is packed here, and the file appears only if its entries for the
model are the same, byte for byte.

With --sealed, FILE is read-only, and served by the reader in C too. What was pushed must
have been sealed (xpwc pack --sealed), or MODEL be given, which it is sealed for.

With --target, it is not for this machine but for a phone or a board, as xpwc pack has it:
a build machine pulls what an app ships.

With --for, FILE is read-only, and for a stock runtime (see xpwc pack --for) on this
machine's CPU or a target's. For LiteRT it must have been pushed as such. LiteRT compares
neither its version nor the model: give --model, and each model a FILE of its own. With
--model, a program on which ExecuTorch's stock runtime crashes (PReLU) is refused.

` + refHelp + `
HOST/NAME@sha256:… always pulls the same. If FILE is a directory, the file in it is named
after REF.`,
		Example: `  xpwc pull registry.example/models/pose:v3 -o pose.xpwc
  xpwc pull registry.example/models/pose:v3 -o pose.xpwc --model pose.tflite
  xpwc pull registry.example/models/llm:v1 --for executorch -o llm.packed_cache
  xpwc pull registry.example/models/pose:v3 --for litert -o pose.litert_cache
  xpwc pull localhost:5000/pose:v3 --for litert --target arm64:a76 -o phone`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.output == "" {
				return usagef("-o FILE is missing; -o . names a file in this directory")
			}
			if o.library != "" && o.runtime != forLiteRT {
				return usagef("--litert-lm is for --for litert")
			}
			if o.runtime != "" && o.layout != "" {
				return usagef("--for is for this machine's layout or a --target's: --layout names others")
			}
			level, err := levelOf(cmd, native, targets)
			if err != nil {
				return err
			}
			if o.level = level; level != native && o.layout != "" {
				return usagef("--layout and --target exclude each other")
			}
			o.layoutOfTarget = sync.OnceValues(func() (machineLayout, error) {
				return layoutOn(cmd.Context(), o.level)
			})
			if o.runtime != "" && o.sealed {
				return usagef("--sealed excludes --for")
			}
			if err := checkModel(o.model); err != nil {
				return err
			}
			if o.runtime == forLiteRT && o.model.Path != "" {
				if err := checkLiteRTModel(o.model); err != nil {
					return err
				}
			}
			if maxSize != "" {
				var err error
				if o.maxBytes, err = parseSize("max-size", maxSize); err != nil {
					return err
				}
			}
			return o.pull(cmd, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "cache `FILE` to write, or a directory; an existing cache is replaced")
	f.StringVar(&o.layout, "layout", "",
		"pull this `LAYOUT`: the beginning of a fingerprint that xpwc ls prints, or current (the default)")
	f.StringVar(&o.runtime, "for", "", "write a file for a stock `RUNTIME`: executorch or litert")
	targetFlag(cmd, &targets, "to pull for")
	libraryFlag(cmd, &o.library)
	f.BoolVar(&o.sealed, "sealed", false, "write a read-only file, for the reader in C too")
	f.StringVar(&maxSize, "max-size", "", "pull nothing that has more than `SIZE`, as 2GiB")
	modelFlags(cmd, &o.model)
	o.placing.flags(cmd)
	o.registryOptions.flags(cmd)
	return cmd
}

// pulling is the result of xpwc pull.
type pulling struct {
	referred
	Output string `json:"output"`
	*registry.Pulled
	Chosen string     `json:"chosen,omitempty"` // why this layout, where XNNPACK could not be asked
	Sealed string     `json:"sealed,omitempty"` // the digest of the model
	Proof  *proof     `json:"proof,omitempty"`
	For    *stockFile `json:"for,omitempty"`
}

// nameOutput gives the output file a name if the output is a directory.
func (o *pullOptions) nameOutput(ref string) error {
	info, err := os.Stat(o.output)
	if err != nil || !info.IsDir() {
		return nil // whoever makes the file finds out why it cannot be there
	}
	name, err := registry.Name(ref)
	if err != nil {
		return err
	}
	o.output = filepath.Join(o.output, name+extensions[o.runtime])
	return nil
}

func (o *pullOptions) pull(cmd *cobra.Command, ref string) (err error) {
	ctx := cmd.Context()
	if err := o.nameOutput(ref); err != nil {
		return err
	}
	p := &pulling{referred: newReferred(ref), Output: o.output}
	replaces := onlyCaches
	switch o.runtime {
	case "":
	case forLiteRT:
		replaces = onlyLiteRT
	default:
		p.For, err = newStockFile(o.runtime, o.level)
		if err == nil && isTarget(o.level) {
			var l machineLayout
			if l, err = o.layoutOfTarget(); err == nil {
				err = p.For.identify(l.XNNPACK)
			}
		}
		if err == nil && o.model.Program() {
			err = checkStockRunsFile(o.model) // nothing that was pushed shows which nodes a program has
		}
		if err != nil {
			return err
		}
	}
	s, err := newReplacing(ctx, o.output, o.placing, replaces, o.model.Path)
	if err != nil {
		return err
	}
	defer s.discard()
	progress := newProgress(ctx, "downloading")
	client := o.client(cmd, progress)
	client.MaxBytes = o.maxBytes
	// A file for ExecuTorch cannot be compared with the registry's. A cache that programs refuse, since others can
	// change it, is always replaced.
	if o.runtime == forLiteRT || p.For == nil && !o.sealed && checkCache(s.path) == nil {
		client.Have = s.path
	}
	p.Pulled, p.Chosen, err = o.fetch(ctx, ref, s.File.File, client)
	progress.Finish()
	if err != nil {
		return err
	}
	if o.model.Path != "" {
		if err := p.prove(ctx, s, o); err != nil {
			return fmt.Errorf("%w; nothing was written to %s", err, p.Output)
		}
	}
	switch {
	case p.For != nil:
		err = p.For.writeFrom(s)
	case o.runtime == forLiteRT:
		s.readOnly()
	case o.sealed:
		p.Sealed, err = s.seal(o.model)
	}
	if err != nil {
		return err
	}
	return p.conclude(ctx, s)
}

// prove returns an error if what was pulled is not what the model is packed into. What differs is printed.
func (p *pulling) prove(ctx context.Context, s *pendingOutput, o *pullOptions) (err error) {
	var origin *packedFor
	if o.runtime != "" { // before the model is packed: it is looked at again afterwards
		if origin, err = newPackedFor(o.model, o.level); err != nil {
			return err
		}
	}
	file := s.File.File
	if p.UpToDate {
		if file, _, err = fd.OpenRegular(s.path); err != nil {
			return err
		}
		defer file.Close()
	}
	switch {
	case o.runtime != forLiteRT:
		err = viewCache(file, func(f *cachefile.File) error {
			p.Proof, err = prove(ctx, f, o.model, []string{o.level})
			return err
		})
	case p.Layouts[0].Model != origin.Files[0].SHA256:
		err = fmt.Errorf("what was pulled is for another model, with SHA-256 %q, than %s: %w", p.Layouts[0].Model,
			origin,
			errUnproven)
	default:
		p.Proof, err = proveLiteRT(ctx, file, o.model, o.level, o.library)
		err = errors.Join(err, origin.check())
	}
	if p.For != nil {
		p.For.packedFor = origin
	}
	if err == nil && !p.Proof.holds() {
		p.Proof.print(jobOf(ctx).stderr, p.Output)
		err = p.Proof.err("what was pulled")
	}
	return err
}

// conclude puts the file at its path, unless it is there.
func (p *pulling) conclude(ctx context.Context, s *pendingOutput) error {
	place := s.publish
	if p.UpToDate {
		place = s.keep
	}
	if err := place(); err != nil {
		return err
	}
	setResult(ctx, p)
	return nil
}

func (p *pulling) print(w io.Writer) {
	done := "written to"
	if p.UpToDate {
		done = "up to date"
	}
	t := newLayoutTable(w, p.Current, "file")
	t.addListed(p.Layouts, "")
	t.print()
	fmt.Fprintf(w, "\n%s  %s\ndigest  %s\n", done, p.Output, p.Digest)
	if model := p.Layouts[0].Model; model != "" {
		fmt.Fprintf(w, "for model   %s (SHA-256)\n", console.Printable(model))
	}
	if p.Chosen != "" {
		fmt.Fprintf(w, "layout      %s\n", p.Chosen)
	}
	if p.Sealed != "" {
		fmt.Fprintf(w, "sealed for  %s\n", p.Sealed)
	}
	p.Proof.print(w, p.Output)
	if p.For != nil {
		p.For.print(w, p.Output, "--target pulls for another")
	}
}

// ownLayout returns the layout of this machine, or of the target.
func (o *pullOptions) ownLayout() (registry.Fingerprint, error) {
	if !isTarget(o.level) {
		return layoutHere()
	}
	l, err := o.layoutOfTarget()
	if err != nil {
		return registry.Fingerprint{}, err
	}
	return registry.ParseFingerprint(l.Layout)
}

// fetch pulls into a file. It also returns why another layout than this machine's was chosen, if one was.
func (o *pullOptions) fetch(ctx context.Context, ref string, dst *os.File,
	client *registry.Options) (pulled *registry.Pulled, chosen string, err error) {
	if o.runtime == forLiteRT {
		current, err := litertFor(o.level)
		if err == nil {
			pulled, err = registry.PullLiteRT(ctx, ref, current, dst, client)
		}
		if errors.Is(err, registry.ErrNoLayout) {
			err = fmt.Errorf("%w; pack here with --for litert and push, so that other nodes like this one can pull",
				err)
		}
		return pulled, "", err
	}
	layout, hereErr := o.ownLayout()
	forMachine := o.layout == "" || o.layout == current
	switch {
	case !forMachine:
		layout, err = listedLayout(ctx, ref, o.layout, client)
	case errors.Is(hereErr, xpwc.ErrNoCgo):
		layout, chosen, err = layoutByProcessor(ctx, ref, client)
	case hereErr != nil:
		err = fmt.Errorf("%w; name one with --layout", hereErr)
	}
	if err != nil {
		return nil, "", err
	}
	pulled, err = registry.Pull(ctx, ref, layout, dst, client)
	if errors.Is(err, registry.ErrNoLayout) && forMachine {
		err = fmt.Errorf("%w; pack here and push, so that other nodes like this one can pull", err)
	}
	return pulled, chosen, err
}
