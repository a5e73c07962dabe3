package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/emulator"
	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/models/executorch"
	"xpwc/xnnpack"
	operator "xpwc/xnnpack/packing"
)

// forExecuTorch is the value of --for: the stock runtime of ExecuTorch, which maps a file at its packed_cache_path.
const forExecuTorch = "executorch"

// native is the level of this machine's CPU.
const native = "native"

// stockFile describes a file for the stock runtime.
type stockFile struct {
	ExecuTorch   []string `json:"executorch"`               // versions with the XNNPACK that packed it
	XNNPACK      string   `json:"xnnpack_build_identifier"` // the build identifier of that
	Architecture string   `json:"architecture"`
	CPU          string   `json:"cpu"` // level
	Layout       string   `json:"layout"`
	fileFigures
	LeftOut  []leftOut  `json:"left_out,omitempty"` // the stock runtime packs these with each load
	Replaced *packedFor `json:"replaced,omitempty"` // program of the replaced file, if it is another one

	packedFor *packedFor // nil if it is not known
}

// leftOut is an entry that is not in a new file.
type leftOut struct {
	Entry  string `json:"entry,omitempty"` // "" if its record is damaged
	Reason string `json:"why"`
}

// errNothing: all that was packed is left out of a file for the stock runtime.
var errNothing = errors.New("there is nothing that the stock runtime would look for")

// newStockFile checks the value of --for, and that this program packs as the stock runtime does. For a target the
// emulated program packs, and the caller identifies its XNNPACK.
func newStockFile(runtimeName, level string) (*stockFile, error) {
	if runtimeName != forExecuTorch {
		return nil, usagef("--for %s: the runtimes known are %s, %s and %s", runtimeName, forExecuTorch, forLiteRT,
			forLiteRTLM)
	}
	architecture, cpu := machineOf(level)
	f := &stockFile{Architecture: architecture, CPU: cpu}
	if isTarget(level) {
		return f, nil
	}
	return f, f.identify(xnnpack.BuildIdentifier())
}

// identify records the build identifier of the XNNPACK that packs. It returns an error if the stock runtime has another
// XNNPACK. The runtime compares only names and seeds, and would compute wrong numbers.
func (f *stockFile) identify(identifier string) error {
	f.XNNPACK = identifier
	for _, r := range executorch.ReleasesOf(f.Architecture, f.XNNPACK) {
		f.ExecuTorch = append(f.ExecuTorch, r.Version)
	}
	if len(f.ExecuTorch) > 0 {
		return nil
	}
	var names []string
	for _, r := range executorch.Releases() {
		if id, ok := r.XNNPACK[f.Architecture]; ok {
			names = append(names, fmt.Sprintf("ExecuTorch %s has %.8s…", r.Version, id))
		}
	}
	return fmt.Errorf("--for %s: this xpwc packs with another XNNPACK than the stock runtime, which would pack "+
		"again or compute wrong numbers: its build identifier is %.8s…; on %s %s; "+
		"the package of Debian, the wheel and the tarball have an xpwc that can", forExecuTorch, identifier,
		f.Architecture, cmp.Or(strings.Join(names, ", "), "no ExecuTorch is known"))
}

// crashNote is printed if the program of a file for the stock runtime is not known.
const crashNote = "note: the stock runtime crashes with any file on a program with a PReLU: give --model, " +
	"and such a program is refused"

// checkStockRuns returns an error if the stock runtime crashes on a program as soon as it has a weights cache.
func checkStockRuns(w modelfile.Weights) error {
	p, isProgram := w.(*executorch.Program)
	if !isProgram {
		return nil
	}
	freed := p.FreedConstants()
	if len(freed) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: it frees the constant %q, which a node reads at inference; use xpwc's classes for "+
		"ExecuTorch, or Go; without a cache it frees kernels too, and keeps only the slopes of a PReLU",
		p.Path(), errStockCrashes, freed[0])
}

// checkStockRunsFile is checkStockRuns for a program in a file.
func checkStockRunsFile(model modelfile.File) error {
	w, err := model.OpenWeights()
	if err != nil {
		return err
	}
	return errors.Join(checkStockRuns(w), w.Close())
}

// writeFrom converts the output, a native file of one layout, into this file and makes it read-only. The stock
// runtime locks a file that it can write to, so no second process could map it, and truncates one that it cannot read.
func (s *stockFile) writeFrom(st *pendingOutput) error {
	st.readOnly()
	err := st.remake(func(f *cachefile.File, dst *os.File) error {
		return errors.Join(s.write(st.ctx, f, dst), s.packedFor.check())
	})
	if err == nil {
		err = s.measure(st.newFile)
	}
	if err != nil {
		return fmt.Errorf("%w\nnothing was written to %s", err, st.path)
	}
	return nil
}

func (s *stockFile) write(ctx context.Context, f *cachefile.File, dst *os.File) error {
	var entries []cachefile.Entry
	for e, err := range f.Entries() {
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b cachefile.Entry) int { // independent of the order of packing
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Size, b.Size),
			cmp.Compare(a.Family.Operator, b.Family.Operator), bytes.Compare(a.Sum[:], b.Sum[:]))
	})
	if err := stockCollisions(entries); err != nil {
		return err
	}
	complete := s.packedFor != nil
	chosen := stockChoice(entries, complete)
	keep := func(e cachefile.Entry) bool {
		reason := stockPacks(&e, complete)
		if reason == "" && e.Seed != chosen[e.Name].Seed {
			reason = notAlone
		}
		if reason != "" {
			s.LeftOut = append(s.LeftOut, leftOut{e.Name, reason})
		}
		return reason == ""
	}
	note, err := s.packedFor.note()
	if err != nil {
		return err
	}
	err = writeCache(ctx, f, dst, "writing", keep,
		cachefile.WriteOptions{Format: cachefile.XPWC2, Note: note, Complete: complete})
	slices.SortFunc(s.LeftOut, func(a, b leftOut) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Reason, b.Reason))
	})
	if errors.Is(err, cachefile.ErrEmpty) {
		err = fmt.Errorf("%w: %s", errNothing, strings.Join(reasonsOf(s.LeftOut), ", "))
	}
	if err != nil {
		return err
	}
	s.Layout = entries[0].Layout.String()
	return nil
}

// stockName is the name under which the stock runtime looks for an entry: it adds a bias only if that has a name.
func stockName(e *cachefile.Entry) string {
	if executorch.Named(e.Bias) {
		return e.Name
	}
	return e.Kernel
}

// notAlone is the reason of an entry whose name another entry has too, with another seed.
const notAlone = "not the only one of its name, of which the file can have one"

// notComplete is the reason of a variant if the others of its kernel may be missing.
const notComplete = "one of several of a kernel, which only a file packed or pulled with its model has"

// stockPacks returns the reason why the stock runtime packs an entry with each load although a file has it, or "". A
// file that had such an entry would keep its weights in memory twice. complete promises that all entries of the
// entry's model are known.
func stockPacks(e *cachefile.Entry, complete bool) string {
	switch {
	case e.Variant && !complete:
		return notComplete
	case !executorch.Named(e.Kernel) || e.HasBias && !executorch.Named(e.Bias):
		return "packed from a constant without a name"
	case strings.HasSuffix(e.Kernel, "#"):
		return "packed from a copy that XNNPACK converts on such a CPU, which has no name"
	case e.Family.Operator == operator.Deconvolution2D:
		return "of a deconvolution, which XNNPACK packs before it looks"
	case e.Family.Operator == operator.BatchMatrixMultiply:
		return "of a batch matrix multiplication, whose seed is another one in each process"
	}
	return ""
}

// stockChoice returns the entries of the file: the largest of each name.
func stockChoice(entries []cachefile.Entry, complete bool) map[string]cachefile.Entry {
	chosen := map[string]cachefile.Entry{}
	for _, e := range entries {
		if stockPacks(&e, complete) != "" {
			continue
		}
		c, ok := chosen[e.Name]
		if !ok || cmp.Or(cmp.Compare(e.Size, c.Size), cmp.Compare(c.Seed, e.Seed)) > 0 {
			chosen[e.Name] = e
		}
	}
	return chosen
}

// stockCollisions returns an error if the stock runtime would take one entry for another: it distinguishes entries by
// name and seed.
func stockCollisions(entries []cachefile.Entry) error {
	type key struct {
		name string
		seed uint32
	}
	type content struct {
		sum  cachefile.Digest
		size int64
	}
	first := map[key]*cachefile.Entry{}
	var errs []error
	for i := range entries {
		e := &entries[i]
		k := key{stockName(e), e.Seed}
		if !executorch.Named(e.Kernel) {
			continue // it is never looked for
		}
		a, ok := first[k]
		if !ok {
			first[k], a = e, e
		}
		if (content{a.Sum, a.Size}) != (content{e.Sum, e.Size}) {
			errs = append(errs, fmt.Errorf("%q: %s and %s, with seed %08x", k.name, packedBy(a), packedBy(e), e.Seed))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("the stock runtime finds packed weights by name and seed, and would take one for another, "+
		"with this file or without; give their nodes tensors of other content, or use xpwc's class for ExecuTorch, "+
		"which distinguishes them:\n%w", errors.Join(errs...))
}

// packedBy describes the operator that packs an entry and the packed size.
func packedBy(e *cachefile.Entry) string {
	reader := "an operator"
	if f := e.Family; f.Operator != 0 {
		reader = f.Operator.String()
	}
	return fmt.Sprintf("%s into %d bytes", reader, e.Size)
}

// onCPUs names the CPUs that can use a file packed for a level on such a machine.
func onCPUs(architecture, level, machine string) string {
	switch {
	case architecture == emulator.Architecture && level != native:
		return "CPUs like " + level
	case level == native:
		return "CPUs like " + machine
	}
	return "CPUs of level " + console.Printable(level)
}

// print describes the file. others is a hint how to make one for another CPU.
func (s *stockFile) print(w io.Writer, path, others string) {
	suffix := ""
	if s.CPU == native {
		suffix = "; " + others
	}
	fmt.Fprintf(w, "\n%s: for ExecuTorch %s on %s, %s: %s, %s packed, %s in all\n", path,
		strings.Join(s.ExecuTorch, ", "), s.Architecture, onCPUs(s.Architecture, s.CPU, "this machine's"),
		console.Plural(s.Entries, "entry"), console.Size(s.PayloadBytes), console.Size(s.FileBytes))
	fmt.Fprintf(w, "note: the stock runtime does not check the CPU: with one of another layout than %s "+
		"it computes wrong numbers%s\n", s.Layout[:shortLayout], suffix)
	if s.packedFor == nil {
		fmt.Fprintln(w, crashNote)
	}
	if s.Replaced != nil {
		fmt.Fprintf(w, "note: it replaces the file of another program, %v\n", s.Replaced)
	}
	for _, reason := range reasonsOf(s.LeftOut) {
		fmt.Fprintf(w, "note: the stock runtime packs with each load: %s\n", reason)
	}
}

// reasonsOf counts entries by reason.
func reasonsOf(entries []leftOut) (out []string) {
	count := map[string]int{}
	for _, l := range entries {
		count[l.Reason]++
	}
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		out = append(out, console.Plural(count[reason], "entry")+", "+reason)
	}
	return out
}

// packedFor identifies the program that a file for the stock runtime was packed for, as JSON in the file's note. The
// runtime finds packed weights by name and seed, which a re-exported program may share.
type packedFor struct {
	Files []programFile `json:"files"` // the .pte, and the .ptd files
	CPU   string        `json:"cpu"`   // level

	model modelfile.File // that is packed now
}

type programFile struct {
	Name   string `json:"name"` // without its directory
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

func newPackedFor(model modelfile.File, cpu string) (*packedFor, error) {
	p := &packedFor{CPU: cpu, model: model}
	for _, path := range append([]string{model.Path}, model.Data...) {
		sum, n, err := sha256Of(path)
		if err != nil {
			return nil, err
		}
		p.Files = append(p.Files, programFile{filepath.Base(path), n, sum})
	}
	return p, nil
}

// sha256Of returns the SHA-256 of a file, in hexadecimal digits, and how many bytes the file has.
func sha256Of(path string) (sum string, n int64, err error) {
	f, _, err := fd.OpenRegular(path)
	if errors.Is(err, fd.ErrNotRegular) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// check returns an error if the model's files have changed: then it is unknown which version was packed.
func (p *packedFor) check() error {
	if p == nil {
		return nil
	}
	current, err := newPackedFor(p.model, p.CPU)
	if err == nil && !p.sameProgram(current) {
		err = fmt.Errorf("%s: %w", p.model.Path, xpwc.ErrSourceChanged)
	}
	return err
}

// readPackedFor parses a note, which any program may have written. It returns nil for another program's.
func readPackedFor(note string) *packedFor {
	p := &packedFor{}
	if note == "" || json.Unmarshal([]byte(note), p) != nil || len(p.Files) == 0 {
		return nil
	}
	return p
}

// replacedBy returns the program of the cache file at a path if it differs from this one, else nil.
func (p *packedFor) replacedBy(path string) (replaced *packedFor) {
	_ = withFile(path, func(f *cachefile.File) error { // an unreadable file has no program
		info, err := f.Info()
		if previous := readPackedFor(info.Note); err == nil && previous != nil && !previous.sameProgram(p) {
			replaced = previous
		}
		return nil
	})
	return replaced
}

// note returns the text for a file; "" for none.
func (p *packedFor) note() (string, error) {
	if p == nil {
		return "", nil
	}
	b, err := json.Marshal(p)
	return string(b), err
}

// sameProgram reports whether both have files of the same content, under any names.
func (p *packedFor) sameProgram(q *packedFor) bool {
	return slices.EqualFunc(p.Files, q.Files, func(a, b programFile) bool { return a.SHA256 == b.SHA256 })
}

// String names the program's files, with as many digits of their digests as distinguish them.
func (p *packedFor) String() string {
	var files []string
	for _, f := range p.Files {
		sum := console.Printable(f.SHA256)
		files = append(files, fmt.Sprintf("%s (SHA-256 %.12s…)", console.Printable(f.Name), sum))
	}
	return strings.Join(files, ", ")
}
