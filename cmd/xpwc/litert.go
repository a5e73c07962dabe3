package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/emulator"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/console"
	"xpwc/internal/cpu"
	"xpwc/internal/modelfile"
	"xpwc/internal/output"
	"xpwc/models/litert"
	"xpwc/models/tflite"
)

// forLiteRT is the value of --for: the stock runtime of LiteRT, which maps a file at its weight_cache_file_path.
const forLiteRT = "litert"

// libraryFlag is the flag for the library by which files for LiteRT are packed.
func libraryFlag(cmd *cobra.Command, library *string) {
	cmd.Flags().StringVar(library, "litert-lm", "",
		"`FILE` of the library that packs for LiteRT, liblitert-lm.so (default that of litert-lm-api beside xpwc)")
}

// A litertFile is a file for the stock runtime of LiteRT.
type litertFile struct {
	Output       string `json:"output"`
	LiteRT       string `json:"litert"`              // its version
	Packer       string `json:"packer"`              // the package whose library packed it
	Engine       string `json:"litert_lm,omitempty"` // the package whose engine finds it by its name
	Architecture string `json:"architecture"`
	CPU          string `json:"cpu"` // level
	fileFigures
	Unchanged bool     `json:"kept,omitempty"`    // it was there already, with the same bytes
	Aliases   []string `json:"aliases,omitempty"` // paths at which the engine may look instead
}

// A litertPacker is a library by which LiteRT's own code packs.
type litertPacker struct {
	library string
	release litert.Release
}

// newLiteRTPacker finds the library, and checks its SHA-256 against the releases: LiteRT uses any file of its version,
// whoever packed it.
func newLiteRTPacker(library, level string) (*litertPacker, error) {
	architecture, _ := machineOf(level)
	var names []string
	for _, r := range litert.Releases() {
		names = append(names, fmt.Sprintf("that of PyPI's %s, for LiteRT %s on %s", r.Packer, r.Version,
			strings.Join(slices.Sorted(maps.Keys(r.Libraries)), " and ")))
	}
	need := "--for litert: known is " + strings.Join(names, ", ")
	if library == "" {
		if architecture != runtime.GOARCH {
			if _, err := emulator.Tool(); err != nil {
				return nil, err // the library is in the directory of the tool
			}
		}
		if library = installedLibrary(architecture); library == "" {
			return nil, fmt.Errorf("%s; %s: %w", need, installLibrary(architecture), fs.ErrNotExist)
		}
	}
	sum, _, err := sha256Of(library)
	if err != nil {
		return nil, err
	}
	release, ok := litert.ReleaseOf(architecture, sum)
	if !ok {
		return nil, fmt.Errorf("%s: nobody knows for which LiteRT this library packs on %s (SHA-256 %.12s…); %s",
			library, architecture, sum, need)
	}
	return &litertPacker{library, release}, nil
}

// installLibrary tells how to get the library of the newest LiteRT for an architecture.
func installLibrary(architecture string) string {
	release, ok := litert.Newest(architecture)
	switch {
	case !ok:
		return "none is known on " + architecture
	case architecture != runtime.GOARCH:
		dir := "DIR"
		if tool, err := emulator.Tool(); err == nil {
			dir = filepath.Dir(filepath.Dir(tool))
		}
		return fmt.Sprintf("pip install --no-deps --only-binary=:all: --platform=%s --target='%s' %s, or name its "+
			"litert_lm/liblitert-lm.so with --litert-lm", release.Platforms[architecture], dir, pipRequirement(release))
	}
	return fmt.Sprintf("pip install %s, or name its litert_lm/liblitert-lm.so with --litert-lm",
		pipRequirement(release))
}

func pipRequirement(release litert.Release) string {
	return strings.Replace(release.Packer, " ", "==", 1)
}

// installedLibrary returns the path of an architecture's library that pip installed where this architecture's tool is,
// or that was fetched where this program was built, or "".
func installedLibrary(architecture string) string {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return ""
	}
	tool, fetched := self, "litert-lm"
	if architecture != runtime.GOARCH {
		fetched += "-" + architecture
		tool, err = emulator.Tool()
	}
	if err == nil {
		if path := pipLibrary(filepath.Dir(filepath.Dir(tool))); path != "" {
			return path
		}
	}
	for dir := filepath.Dir(self); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "third_party", fetched, "lib", "liblitert-lm.so")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// pipLibrary returns the path of the library in a Python environment, or in a directory of pip install --target, or "".
func pipLibrary(prefix string) string {
	for _, packages := range []string{"lib*/python3*/site-packages", "lib*/python3*/dist-packages", "."} {
		pattern := filepath.Join(prefix, filepath.FromSlash(packages), "litert_lm", "liblitert-lm.so")
		if paths, _ := filepath.Glob(pattern); len(paths) > 0 {
			return paths[0]
		}
	}
	return ""
}

// checkLiteRTModel returns an error for models that LiteRT does not load, and for skeletons, which have nothing to
// pack.
func checkLiteRTModel(model modelfile.File) error {
	if model.Program() || model.Described() || len(model.Data) > 0 {
		return usagef("for LiteRT a model is one .tflite file, and %s is not", strings.Join(model.Files(), ", "))
	}
	model, err := model.Model()
	if err != nil {
		return err
	}
	f, err := os.Open(model.Path)
	if err != nil {
		return nil // the packer reports it
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := cmp.Or(model.Offset+model.Size, info.Size())
	if skeleton, err := isSkeletonEnd(f, end); skeleton && err == nil {
		return fmt.Errorf("%s: %w", model, tflite.ErrSkeleton)
	}
	return nil
}

// pack packs a model for a level of CPU into an empty file, with LiteRT's code, in a process of its own. If it fails
// the error has its log. Of the files to share, the first is the model, whatever its path, and the second, if any,
// receives the model's answer.
func (p *litertPacker) pack(dst *newFile, model modelfile.File, level string, share ...*os.File) (*litert.File, error) {
	job := packJob{Model: model, CPU: level, LiteRT: p.library, Answer: len(share) > 1}
	if len(share) > 0 {
		job.Model = modelfile.File{Path: fmt.Sprint("/dev/fd/", inherited+1)}
	}
	var log bytes.Buffer
	if _, err := dst.packIn(job, &log, append([]*os.File{dst.File.File}, share...)...); err != nil {
		if isTarget(level) && strings.Contains(log.String(), "SIGILL") {
			err = fmt.Errorf("packing for %s: %w", level, errIllegal)
		}
		for line := range strings.Lines(log.String()) {
			if said, ok := strings.CutPrefix(strings.TrimSpace(line), "ERROR: "); ok {
				err = fmt.Errorf("%w\nLiteRT says: %s", err, said)
			}
		}
		if cause := writable(dst); cause != nil { // LiteRT aborts without a message
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	info, err := dst.Stat()
	if err != nil {
		return nil, err
	}
	f, err := litert.Read(dst, info.Size())
	if err == nil && f.Stale {
		err = errors.New("LiteRT did not write all that it needs into its file")
	}
	return f, err
}

// packAside packs a model into a new file in the directory for temporary files. The caller discards it.
func (p *litertPacker) packAside(ctx context.Context, model modelfile.File, level string,
	share ...*os.File) (*newFile, *litert.File, error) {
	work, err := makeFile(ctx, filepath.Join(os.TempDir(), "proof.litert_cache"))
	if err != nil {
		return nil, nil, err
	}
	f, err := p.pack(work, model, level, share...)
	if err != nil {
		work.discard()
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%s: %w", temporaryFile(), err)
		}
		return nil, nil, err
	}
	return work, f, nil
}

// writable returns the system's error if a file cannot be extended. It spoils the file, which must have failed
// already.
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

func (r *packReport) addLiteRT(f *litertFile) {
	r.LiteRT = append(r.LiteRT, *f)
	r.Entries, r.PayloadBytes, r.FileBytes = r.Entries+f.Entries, r.PayloadBytes+f.PayloadBytes,
		r.FileBytes+f.FileBytes
}

// nameFor returns a file name for a model, LiteRT version and CPU, so that each combination has its own.
func (p *litertPacker) nameFor(model modelfile.File, origin *packedFor) string {
	target := litertTarget(p.release, origin.CPU)
	return fmt.Sprintf("%s-%.12s-%s-%s-litert%s.litert_cache", model.Base(), origin.Files[0].SHA256,
		target.Architecture, strings.ReplaceAll(target.CPU, " ", "+"), target.Version)
}

// litertTarget is the target of a file that is packed for a level. Native is this machine's CPU. A machine with the CPU
// of an emulated target has the same one as its native target.
func litertTarget(r litert.Release, level string) litert.Target {
	architecture, name := machineOf(level)
	if c, err := cpu.Arm64Named(name); isTarget(level) && err == nil {
		name = c.String()
	}
	if level == native {
		name = cmp.Or(cpu.Features(), native)
	}
	return litert.Target{Version: r.Version, Architecture: architecture, CPU: name}
}

// write writes the file for one level. An existing file with the same bytes is left in place, so that processes go on
// sharing its pages. It returns nil if there is nothing to pack. The file is read-only: LiteRT rewrites a writable
// file that does not suit it, even while other processes have it mapped.
func (p *litertPacker) write(ctx context.Context, path string, origin *packedFor, o placing) (*litertFile, error) {
	s, err := newReplacing(ctx, path, o, onlyLiteRT, origin.model.Path)
	if err != nil {
		return nil, err
	}
	defer s.discard()
	s.readOnly()
	f, err := p.pack(s.newFile, origin.model, origin.CPU)
	if err := errors.Join(err, origin.check()); err != nil || len(f.Entries) == 0 {
		return nil, err
	}
	architecture, cpu := machineOf(origin.CPU)
	out := &litertFile{Output: path, LiteRT: p.release.Version, Packer: p.release.Packer, Architecture: architecture,
		CPU: cpu, fileFigures: fileFigures{len(f.Entries), f.PayloadBytes(), f.FileBytes}}
	if existing, err := s.Existing(); err == nil {
		diff, err := litert.Differ(io.NewSectionReader(s, 0, f.FileBytes), existing)
		_ = existing.Close()
		if out.Unchanged = err == nil && diff < 0; out.Unchanged {
			return out, s.keep()
		}
	}
	return out, s.publish()
}

// onlyLiteRT is replaces for files of LiteRT.
func onlyLiteRT(existing *os.File) error {
	info, err := existing.Stat()
	if err != nil {
		return err
	}
	if _, err = litert.Read(existing, info.Size()); errors.Is(err, litert.ErrNotCache) {
		return leftAsItIs(fmt.Errorf("%s is %w", existing.Name(), err))
	}
	return nil
}

func (f *litertFile) print(w io.Writer) {
	note := ""
	if f.Unchanged {
		note = "; it was there already"
	}
	host := "LiteRT " + f.LiteRT
	if f.Engine != "" {
		host = "LiteRT-LM (" + f.Engine + ")"
	}
	fmt.Fprintf(w, "%s: for %s on %s, %s: %s, %s packed, %s in all%s\n", f.Output, host, f.Architecture,
		onCPUs(f.Architecture, f.CPU, "this machine's"), console.Plural(f.Entries, "entry"),
		console.Size(f.PayloadBytes), console.Size(f.FileBytes), note)
	printAliases(w, f.Aliases)
	fmt.Fprintln(w, "note: LiteRT does not check the CPU of all weights: on another kind it can compute wrong numbers")
}

// litertFormat is the format of LiteRT's cache files. Package cachefile has the other formats.
const litertFormat cachefile.Format = "litert"

// staleLiteRT is the problem of a file that LiteRT has marked as stale.
const staleLiteRT = "LiteRT has marked it as stale, because it lacked something: LiteRT writes it anew"

// A shownFile is a cache file of any kind: package cachefile's, or a litertCache.
type shownFile interface {
	htmlreport.File
	Path() string
}

// withShown calls do with an open cache file of any kind, or with the packed weights in a safetensors file.
func withShown(path string, do func(f shownFile, loc location) error) error {
	if litert.IsCache(path) {
		f, err := litert.Open(path)
		if err != nil {
			return err
		}
		return do(litertCache{f, path}, location{path: path})
	}
	loc, err := locate(path)
	if err != nil {
		return err
	}
	return loc.view(func(f *cachefile.File) error { return do(f, loc) })
}

// A litertCache is a file of LiteRT.
type litertCache struct {
	file *litert.File
	path string
}

func (l litertCache) Path() string { return l.path }

func (l litertCache) Info() (cachefile.Info, error) {
	f := l.file
	padding := f.FileBytes - f.HeaderBytes() - f.PayloadBytes() - f.ListBytes
	sizes := cachefile.Sizes{FileBytes: f.FileBytes, HeaderBytes: f.HeaderBytes(), PayloadBytes: f.PayloadBytes(),
		IndexBytes: f.ListBytes, PaddingBytes: padding}
	return cachefile.Info{Format: litertFormat, Version: litert.Version, Entries: len(f.Entries), Sizes: sizes}, nil
}

// Commits returns none: LiteRT writes a file once.
func (l litertCache) Commits() ([]cachefile.Commit, error) { return nil, nil }

func (l litertCache) Map() ([]cachefile.Segment, error) {
	end := l.file.HeaderBytes()
	segments := []cachefile.Segment{{Kind: cachefile.Header, Size: end}}
	add := func(kind cachefile.Kind, offset, size int64) {
		if offset > end {
			segments = append(segments, cachefile.Segment{Kind: cachefile.Padding, Offset: end, Size: offset - end})
		}
		segments, end = append(segments, cachefile.Segment{Kind: kind, Offset: offset, Size: size}), offset+size
	}
	for e := range l.Entries() {
		add(cachefile.Payload, e.Offset, e.Size)
	}
	add(cachefile.Index, l.file.FileBytes-l.file.ListBytes, l.file.ListBytes)
	return segments, nil
}

func (l litertCache) Entries() iter.Seq2[cachefile.Entry, error] {
	byOffset := func(a, b litert.Entry) int { return cmp.Compare(a.Offset, b.Offset) }
	return func(yield func(cachefile.Entry, error) bool) {
		for _, e := range slices.SortedFunc(slices.Values(l.file.Entries), byOffset) {
			if !yield(cachefile.Entry{Name: e.Name(), Seed: e.Seed, Offset: e.Offset, Size: e.Size}, nil) {
				return
			}
		}
	}
}

// litertHere is what a file for LiteRT on this machine is for.
func litertHere() (litert.Target, error) { return litertFor(native) }

// litertFor is what a file for the newest LiteRT on the CPU of a level is for.
func litertFor(level string) (litert.Target, error) {
	architecture, _ := machineOf(level)
	release, ok := litert.Newest(architecture)
	if !ok {
		return litert.Target{}, fmt.Errorf("--for litert: no LiteRT is known on %s; without a file it packs for itself",
			architecture)
	}
	return litertTarget(release, level), nil
}

// isSkeleton reports whether a file is a skeleton.
func isSkeleton(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	return isSkeletonEnd(f, info.Size())
}

// isSkeletonEnd reports whether the part of a file that ends there is a skeleton.
func isSkeletonEnd(f *os.File, end int64) (bool, error) {
	b := make([]byte, min(end, 128))
	if _, err := f.ReadAt(b, end-int64(len(b))); err != nil {
		return false, err
	}
	return output.IsSkeleton(b), nil
}
