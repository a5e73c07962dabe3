package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xpwc/internal/console"
	"xpwc/internal/cpu"
	"xpwc/internal/modelfile"
	"xpwc/litert"
	"xpwc/tflite"
)

// forLiteRT is the value of --for: the stock runtime of LiteRT, which maps a file at its weight_cache_file_path.
const forLiteRT = "litert"

// libraryFlag is the flag for the library by which files for LiteRT are packed.
func libraryFlag(cmd *cobra.Command, library *string) {
	cmd.Flags().StringVar(library, "litert-lm", "",
		"`FILE` of the library that packs for LiteRT, liblitert-lm.so (default that of third_party/)")
}

// A litertFile is a file for the stock runtime of LiteRT.
type litertFile struct {
	Output       string `json:"output"`
	LiteRT       string `json:"litert"` // its version
	Packer       string `json:"packer"` // the package whose library packed it
	Architecture string `json:"architecture"`
	CPU          string `json:"cpu"` // level
	fileFigures
	Kept bool `json:"kept,omitempty"` // it was there already, with the same bytes
}

// A litertPacker is a library by which LiteRT's own code packs.
type litertPacker struct {
	library string
	release litert.Release
}

// newLiteRTPacker finds the library, and checks that it is one that packs as a known LiteRT does: LiteRT uses a file
// of its version, without a look at who packed it.
func newLiteRTPacker(library string) (*litertPacker, error) {
	var known []string
	for _, r := range litert.Releases() {
		known = append(known, fmt.Sprintf("that of PyPI's %s, for LiteRT %s on %s", r.Packer, r.Version,
			strings.Join(slices.Sorted(maps.Keys(r.Libraries)), " and ")))
	}
	need := "--for litert: known is " + strings.Join(known, ", ")
	if library == "" {
		if library = fetchedLibrary(); library == "" {
			return nil, fmt.Errorf("%s; third_party/fetch-litert-lm fetches it, and --litert-lm names it: %w", need,
				fs.ErrNotExist)
		}
	}
	sum, _, err := sha256Of(library)
	if err != nil {
		return nil, err
	}
	release, ok := litert.ReleaseOf(runtime.GOARCH, sum)
	if !ok {
		return nil, fmt.Errorf("%s: nobody knows for which LiteRT this library packs on %s (SHA-256 %.12s…); %s",
			library, runtime.GOARCH, sum, need)
	}
	return &litertPacker{library, release}, nil
}

// fetchedLibrary returns where the library is that was fetched where this program was built, or "".
func fetchedLibrary() string {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	for dir := filepath.Dir(self); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "third_party", "litert-lm", "lib", "liblitert-lm.so")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// checkLiteRTModel returns an error for what LiteRT does not load, and for skeletons, which have nothing to pack.
func checkLiteRTModel(model modelfile.File) error {
	if model.Program() || model.Described() || len(model.Data) > 0 {
		return usagef("for LiteRT a model is one .tflite file, and %s is not", strings.Join(model.Files(), ", "))
	}
	f, err := os.Open(model.Path)
	if err != nil {
		return nil // who packs it says so
	}
	defer f.Close()
	if is, err := isSkeleton(f); is && err == nil {
		return fmt.Errorf("%s: %w", model.Path, tflite.ErrSkeleton)
	}
	return nil
}

// pack has LiteRT's code pack a model for a level of CPU into an empty file, in a process of its own. What
// it logs is reported if it fails. With files to share, the first is the model, whatever its path, and the second, if
// there is one, gets what the model answers.
func (p *litertPacker) pack(into *newFile, model, level string, share ...*os.File) (*litert.File, error) {
	job := packJob{Model: modelfile.File{Path: model}, CPU: level, LiteRT: p.library, Answer: len(share) > 1}
	if len(share) > 0 {
		job.Model.Path = fmt.Sprint("/dev/fd/", inherited+1)
	}
	var log bytes.Buffer
	if _, err := into.packIn(job, &log, append([]*os.File{into.File.File}, share...)...); err != nil {
		for line := range strings.Lines(log.String()) {
			if said, ok := strings.CutPrefix(strings.TrimSpace(line), "ERROR: "); ok {
				err = fmt.Errorf("%w\nLiteRT says: %s", err, said)
			}
		}
		if why := writable(into); why != nil { // of which it does not say, and aborts
			err = fmt.Errorf("%w: %w", why, err)
		}
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	info, err := into.Stat()
	if err != nil {
		return nil, err
	}
	f, err := litert.Read(into, info.Size())
	if err == nil && f.Stale {
		err = errors.New("LiteRT did not write all that it needs into its file")
	}
	return f, err
}

// packAside packs a model into a new file in the directory for temporary files, which is to be discarded.
func (p *litertPacker) packAside(ctx context.Context, model, level string,
	share ...*os.File) (*newFile, *litert.File, error) {
	work, err := makeFile(ctx, filepath.Join(os.TempDir(), "proof.litert_cache"))
	if err != nil {
		return nil, nil, err
	}
	f, err := p.pack(work, model, level, share...)
	if err != nil {
		work.discard()
		return nil, nil, err
	}
	return work, f, nil
}

// writable returns the system's error if nothing more can be written to a file that failed, which it spoils.
func writable(f *newFile) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, 64<<10), info.Size())
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno // without the file's path, which is temporary
	}
	return err
}

// packLiteRT writes the files for the stock runtime of LiteRT, one for each level.
func packLiteRT(ctx context.Context, model modelfile.File, o packOptions) error {
	if err := checkLiteRTModel(model); err != nil {
		return err
	}
	if o.embed {
		return usagef("--for and --embed-beside exclude each other")
	}
	if len(o.levels) > 1 && !o.byContent {
		return usagef("--for %s: a file has the packed weights of one CPU, and --cpu names %d; "+
			"give --name-by-content, and a directory", o.runtime, len(o.levels))
	}
	packer, err := newLiteRTPacker(o.library)
	if err != nil {
		return err
	}
	r := &packReport{Model: model.Path, Output: o.output, Levels: []packedLevel{}}
	for _, level := range o.levels {
		of, err := newPackedFor(model, level)
		if err != nil {
			return err
		}
		path := o.output
		if o.byContent {
			path = filepath.Join(path, packer.nameFor(model.Path, of))
		}
		f, err := packer.write(ctx, path, of, o.placing)
		if err != nil {
			return fmt.Errorf("%w\nnothing was written to %s", err, path)
		}
		if f == nil {
			r.Nothing = "it has no weights that LiteRT's XNNPACK packs"
			break
		}
		r.LiteRT = append(r.LiteRT, *f)
		r.Entries, r.PayloadBytes, r.FileBytes = r.Entries+f.Entries, r.PayloadBytes+f.PayloadBytes,
			r.FileBytes+f.FileBytes
	}
	setResult(ctx, r)
	return nil
}

// nameFor names a file after what it is for, so that another model, LiteRT or CPU has another one.
func (p *litertPacker) nameFor(model string, of *packedFor) string {
	name := strings.TrimSuffix(filepath.Base(model), filepath.Ext(model))
	target := litertTarget(p.release, of.CPU)
	return fmt.Sprintf("%s-%.12s-%s-%s-litert%s.litert_cache", name, of.Files[0].SHA256, target.Architecture,
		strings.ReplaceAll(target.CPU, " ", "+"), target.Version)
}

// litertTarget is what a file that is packed for a level is for. Native is what this machine's CPU has.
func litertTarget(r litert.Release, level string) litert.Target {
	if level == native {
		level = cmp.Or(cpu.Features(), native)
	}
	return litert.Target{Version: r.Version, Architecture: runtime.GOARCH, CPU: level}
}

// write writes the file for one level, unless it is there already: then it is left, so that processes go on sharing
// its pages. It returns nil if there is nothing to pack. The file is read-only: LiteRT writes to one that it can write
// to when it does not suit it, also while other processes have it mapped.
func (p *litertPacker) write(ctx context.Context, path string, of *packedFor, o placing) (*litertFile, error) {
	s, err := newReplacing(ctx, path, o, onlyLiteRT, of.model.Path)
	if err != nil {
		return nil, err
	}
	defer s.discard()
	s.readOnly()
	f, err := p.pack(s.newFile, of.model.Path, of.CPU)
	if err := errors.Join(err, of.check()); err != nil || len(f.Entries) == 0 {
		return nil, err
	}
	out := &litertFile{Output: path, LiteRT: p.release.Version, Packer: p.release.Packer, Architecture: runtime.GOARCH,
		CPU: of.CPU, fileFigures: fileFigures{len(f.Entries), f.PayloadBytes(), f.FileBytes}}
	if there, err := s.There(); err == nil {
		at, err := litert.Differ(io.NewSectionReader(s, 0, f.FileBytes), there)
		_ = there.Close()
		if out.Kept = err == nil && at < 0; out.Kept {
			return out, s.keep()
		}
	}
	return out, s.publish()
}

// onlyLiteRT is a stage's replaces for files of LiteRT.
func onlyLiteRT(there *os.File) error {
	info, err := there.Stat()
	if err != nil {
		return err
	}
	if _, err = litert.Read(there, info.Size()); errors.Is(err, litert.ErrNotCache) {
		return leftAsItIs(fmt.Errorf("%s is %w", there.Name(), err))
	}
	return nil
}

func (f *litertFile) print(w io.Writer) {
	as := ""
	if f.Kept {
		as = "; it was there already"
	}
	fmt.Fprintf(w, "%s: for LiteRT %s on %s, %s: %s, %s packed, %s in all%s\n", f.Output, f.LiteRT, f.Architecture,
		onCPUs(f.CPU, "this machine's"), console.Plural(f.Entries, "entry"), console.Size(f.PayloadBytes),
		console.Size(f.FileBytes), as)
	fmt.Fprintln(w, "note: LiteRT does not check the CPU of all weights: on another kind it can compute wrong numbers")
}
