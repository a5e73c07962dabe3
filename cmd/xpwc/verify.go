package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/ask"
	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
	"xpwc/internal/trust"
	"xpwc/models/litert"
)

func newVerifyCommand() *cobra.Command {
	var model modelfile.File
	var library string
	var cpus, targets []string
	cmd := &cobra.Command{
		Use:   "verify FILE [--model MODEL [DATA...]]",
		Short: "Check everything in a cache file",
		Long: `Checks every rule of the format of a cache file (docs/format.md), and the checksum of each
payload. Prints what is wrong and at which offset of the file, in bytes. The file is
neither changed nor locked. FILE may be a safetensors file with packed weights in it: then
these are checked, and not the other tensors. ExecuTorch's files and LiteRT's have no
checksums: of these the index is checked.

Checksums find damage. They do not prove who made the file, and who can write it decides
what the model computes. With --model, MODEL is packed, in the directory for temporary
files (TMPDIR), and every entry that the file has for it is compared byte for byte. Use it
before you deploy a file that was packed elsewhere. A file for other CPUs than this
machine's needs --cpu or --target (see xpwc pack); a cache file may be for several. DATA
are the .ptd files of a MODEL that is a program. The name of a cache of LiteRT-LM's engine
tells which model of a bundle it is for; beside its bundle it needs no --model.

A damaged cache need not be repaired: programs that open it pack damaged weights again.

Exits with 1 if something is wrong, if the file has not all that MODEL needs, if others
can write to it, so that programs refuse it, or if it cannot be read.`,
		Example: `  xpwc verify model.xpwc
  xpwc verify model.xpwc --json | jq '.problems[] | {offset, what, entry}'
  xpwc verify model.xpwc || rm model.xpwc
  xpwc verify received.xpwc --model model.tflite && cp received.xpwc model.xpwc
  xpwc verify model.packed_cache --model model.pte --cpu avx2
  xpwc verify phone.packed_cache --model model.pte --target arm64:a76
  xpwc verify phones.xpwc --model model.tflite --target arm64
  xpwc verify model.xpwc --model model.pte weights.ptd
  xpwc verify model.litert_cache --model model.tflite --cpu avx2`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			model.Data = append(model.Data, args[1:]...)
			if len(model.Data) > 0 && model.Path == "" {
				return usagef("%s: DATA are the .ptd files of a --model that is a program", model.Data[0])
			}
			levels, err := levelsOf(cmd, cpus, targets)
			if err := errors.Join(checkModel(model), err); err != nil {
				return err
			}
			engines := engineModelOf(args[0], model.Path)
			if !slices.Equal(levels, []string{native}) && model.Path == "" && engines == nil {
				return usagef("--cpu and --target are for --model")
			}
			if litert.IsCache(args[0]) {
				if engines != nil && model.Section == "" {
					model = engines.File
				}
				if err := checkOneCPU(args[0], levels); err != nil {
					return err
				}
				return verifyLiteRT(cmd.Context(), args[0], engines, model, levels[0], library)
			}
			return verify(cmd.Context(), args[0], model, levels)
		},
	}
	modelFlags(cmd, &model)
	cmd.Flags().StringSliceVar(&cpus, "cpu", []string{native}, "CPU `LEVEL`s to pack MODEL for: "+levelNames())
	targetFlag(cmd, &targets, "to pack MODEL for")
	libraryFlag(cmd, &library)
	jsonFlag(cmd)
	return cmd
}

// verification is the result of xpwc verify.
type verification struct {
	File         string              `json:"file"`
	Embedded     *embedded           `json:"embedded,omitempty"` // where in the file the cache is; offsets begin there
	Sound        bool                `json:"sound"`
	Format       cachefile.Format    `json:"format,omitempty"`
	Generation   uint64              `json:"generation,omitempty"`
	Entries      int                 `json:"entry_count"`
	PayloadBytes int64               `json:"payload_bytes"`
	Uncommitted  int64               `json:"uncommitted_bytes,omitempty"`
	Refused      string              `json:"refused,omitempty"` // why programs do not open it, sound or not
	Problems     []cachefile.Problem `json:"problems"`
	Proof        *proof              `json:"proof,omitempty"`
	PackedFor    *packedFor          `json:"packed_for,omitempty"`
	Another      bool                `json:"packed_for_another,omitempty"` // than the model
	Misnamed     bool                `json:"misnamed,omitempty"`           // LiteRT-LM looks for another name now

	writable bool // a file of LiteRT, which LiteRT writes to
}

func verify(ctx context.Context, path string, model modelfile.File, levels []string) error {
	loc, err := locate(path)
	if err != nil {
		return err
	}
	progress := newProgress(ctx, "verifying")
	problems, err := loc.verify(progress.Update)
	progress.Finish()
	if err != nil {
		return err
	}
	v := &verification{File: path, Embedded: loc.in, Sound: len(problems) == 0,
		Problems: append([]cachefile.Problem{}, problems...)} // not null
	if info, err := os.Stat(path); err == nil {
		v.Refused = trust.Writable(info)
	}
	// If the file cannot be opened, the problems have the reason.
	_ = loc.view(func(f *cachefile.File) error {
		info, _ := f.Info()
		v.Format, v.Generation, v.Entries = info.Format, info.Generation, info.Entries
		v.PayloadBytes, v.Uncommitted = info.PayloadBytes, info.UncommittedBytes
		v.PackedFor = readPackedFor(info.Note)
		return nil
	})
	if v.Sound && model.Path != "" {
		if v.Format == cachefile.XPWC2 {
			if err := checkOneCPU(path, levels); err != nil {
				return err
			}
		}
		err := loc.view(func(f *cachefile.File) (err error) {
			v.Proof, err = prove(ctx, f, model, levels)
			return err
		})
		if err != nil {
			return err
		}
		if v.PackedFor != nil {
			recorded, err := newPackedFor(model, levels[0])
			if err != nil {
				return err
			}
			v.Another = !v.PackedFor.sameProgram(recorded)
		}
	}
	setResult(ctx, v)
	return v.err()
}

// err returns the error of a file with problems.
func (v *verification) err() error {
	if v.Proof != nil && !v.Proof.holds() {
		return v.Proof.err(v.File)
	}
	if !v.Sound {
		return fmt.Errorf("%s: %s: %w", v.File, console.Plural(len(v.Problems), "problem"), cachefile.ErrDamaged)
	}
	if v.Refused != "" {
		return fmt.Errorf("%s: programs refuse it, because %s: %w", v.File, v.Refused, cachefile.ErrUnsafeFile)
	}
	return nil
}

func (v *verification) printPackedFor(w io.Writer) {
	if v.PackedFor == nil {
		return
	}
	fmt.Fprintf(w, "%s: it says that it was packed for %v, CPUs of level %s\n", v.File, v.PackedFor,
		console.Printable(v.PackedFor.CPU))
	switch {
	case !v.Another:
	case v.Proof.holds():
		fmt.Fprintf(w, "note: %s is another program, with the same packed weights\n", v.Proof.Model)
	default:
		fmt.Fprintf(w, "note: %s is another program: pack it\n", v.Proof.Model)
	}
}

func (v *verification) print(w io.Writer) {
	if v.Embedded != nil {
		fmt.Fprintf(w, "note: %s: %s\n", v.File, v.Embedded.note())
	}
	for _, p := range v.Problems {
		fmt.Fprintf(w, "%s: %s\n", v.File, console.Printable(p.Place()))
	}
	if v.Uncommitted > 0 {
		fmt.Fprintf(w, "note: %s: %s after the end of generation %d: a program is writing, or was killed\n",
			v.File, console.Size(v.Uncommitted), v.Generation)
	}
	switch {
	case !v.Sound:
	case v.Format == cachefile.Native:
		fmt.Fprintf(w, "%s: sound: generation %d, %s, the checksums of %s are right\n",
			v.File, v.Generation, console.Plural(v.Entries, "entry"), console.Size(v.PayloadBytes))
	default:
		fmt.Fprintf(w, "%s: sound as far as %s's files can be checked: %s, %s without checksums\n",
			v.File, htmlreport.Whose(v.Format), console.Plural(v.Entries, "entry"), console.Size(v.PayloadBytes))
	}
	v.Proof.print(w, v.File)
	v.printPackedFor(w)
	if v.Misnamed {
		fmt.Fprintf(w, "note: %s: LiteRT-LM now looks for another name, and deletes this file: xpwc place\n", v.File)
	}
	if v.writable {
		fmt.Fprintf(w, "note: %s is not read-only: LiteRT writes to it when it does not suit it; chmod 0444\n", v.File)
	}
}

// A proof is the result of packing a model to compare a cache file with it.
type proof struct {
	Model      string  `json:"model"`
	CPU        string  `json:"cpu"` // level that it was packed for; several are separated by commas
	Matches    int     `json:"equal_entry_count"`
	EqualBytes int64   `json:"equal_bytes"`
	Wrong      []wrong `json:"wrong"`
	Uncompared int     `json:"uncompared_entry_count"` // which no look-up of the model finds here

	LeftOut []leftOut `json:"left_out,omitempty"` // not in the file: the stock runtime packs these with each load

	levels  []string
	layouts map[string]string // fingerprints of layouts, and the first level that packs in each
}

// wrong is an entry of the model that differs in the file or is missing there, or a wrong statement of the file as a
// whole.
type wrong struct {
	Entry   string `json:"entry"`
	CPU     string `json:"cpu,omitempty"` // level that it is packed for, if there are several
	Problem string `json:"what"`
	Offset  int64  `json:"offset,omitempty"` // of the payload, if there is one
}

func modelFlags(cmd *cobra.Command, m *modelfile.File) {
	cmd.Flags().Var(m, "model",
		"`MODEL` (.tflite, .pte, .litertlm, .safetensors, .ptd) to pack and compare with the file")
	descriptionFlag(cmd, &m.Description)
	dataFlag(cmd, &m.Data)
}

// checkOneCPU returns an error if a file for one CPU is to be compared with what several pack.
func checkOneCPU(path string, levels []string) error {
	if len(levels) > 1 {
		return usagef("%s is for one CPU, and %s are named", path, strings.Join(levels, ", "))
	}
	return nil
}

// prove packs a model for levels of CPU into a temporary cache file. It compares every entry that the given file has
// for the model with that, byte for byte.
func prove(ctx context.Context, f *cachefile.File, model modelfile.File, levels []string) (p *proof, err error) {
	info, err := f.Info()
	if err != nil {
		return nil, err
	}
	stock := info.Format == cachefile.XPWC2
	if stock && model.Program() {
		if err := checkStockRunsFile(model); err != nil {
			return nil, err
		}
	}
	work, err := makeFile(ctx, filepath.Join(os.TempDir(), "proof.xpwc"))
	if err != nil {
		return nil, err
	}
	defer work.discard()
	p = &proof{Model: model.String(), CPU: strings.Join(levels, ","), Wrong: []wrong{}, levels: levels,
		layouts: map[string]string{}}
	for _, level := range levels {
		job := packJob{Model: model, CPU: level, Path: temporaryFile(), Stock: stock}
		packed, err := work.packHere(job)
		if err != nil {
			return nil, err
		}
		if packed.nothing() {
			return nil, fmt.Errorf("%s has no weights that XNNPACK packs through a cache", model)
		}
		if !stock && level == native {
			p.lookAtEvidence(info.Layouts, packed.Layout)
		}
		if _, ok := p.layouts[packed.Layout]; !ok {
			p.layouts[packed.Layout] = level
		}
	}
	return p, work.view(func(right *cachefile.File) error { return p.compare(f, right, stock) })
}

// cpuOf returns the level that an entry is packed for, or "" if there is only one.
func (p *proof) cpuOf(e *cachefile.Entry) string {
	if len(p.levels) < 2 {
		return ""
	}
	return p.layouts[e.Layout.String()]
}

// lookAtEvidence reports records that make a process on this machine look for the model in another layout than it
// packs in.
func (p *proof) lookAtEvidence(layouts []cachefile.Layout, current string) {
	for _, l := range layouts {
		if l.Fingerprint.String() != current && ask.Evidence(l.Fingerprint, l.Families, l.Evidence) != l.Evidence {
			p.Wrong = append(p.Wrong, wrong{Problem: fmt.Sprintf(
				"the file says that this machine packs in layout %s, and it packs in %s", l.Fingerprint, current)})
		}
	}
}

// A candidate is an entry of the file to prove.
type candidate struct {
	cachefile.Entry
	used bool // a look-up of the model finds it, or could
}

// compare compares the entries of the packed model with the file's entries of the same names. In a file for the stock
// runtime a name is the one that the runtime looks up, and occurs once at most.
func (p *proof) compare(f, right *cachefile.File, stock bool) error {
	theirs, ours := map[string][]*candidate{}, map[string][]cachefile.Entry{}
	for e, err := range f.Entries() {
		if err != nil {
			return err
		}
		theirs[e.Name] = append(theirs[e.Name], &candidate{Entry: e})
	}
	for e, err := range right.Entries() {
		if err != nil {
			return err
		}
		name := e.Name
		if stock {
			name = stockName(&e)
		}
		same := func(o cachefile.Entry) bool { return o.Seed == e.Seed && o.Size == e.Size && o.Sum == e.Sum }
		if !stock || !slices.ContainsFunc(ours[name], same) { // the stock runtime finds them as one
			ours[name] = append(ours[name], e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		type absence struct {
			entry   *cachefile.Entry
			problem string
		}
		var missing []absence
		for i := range ours[name] {
			e := &ours[name][i]
			problem, err := p.look(f, right, e, theirs[name], stock)
			if err != nil {
				return err
			}
			if problem != "" {
				missing = append(missing, absence{e, problem})
			}
		}
		occupied := len(theirs[name]) > 0 && theirs[name][0].used
		for _, m := range missing {
			reason := ""
			if stock {
				reason = mayLack(m.entry, occupied)
			}
			if reason == "" {
				p.Wrong = append(p.Wrong, wrong{Entry: name, CPU: p.cpuOf(m.entry), Problem: m.problem})
			} else {
				p.LeftOut = append(p.LeftOut, leftOut{name, reason})
			}
		}
	}
	for _, candidates := range theirs {
		for _, c := range candidates {
			if !c.used {
				p.Uncompared++
			}
		}
	}
	return nil
}

// mayLack returns the reason why a file for the stock runtime need not have an entry, or "". occupied tells that the
// file has another entry of the name that the runtime finds.
func mayLack(e *cachefile.Entry, occupied bool) string {
	reason := stockPacks(e, true)
	switch {
	case reason != "":
	case occupied:
		reason = notAlone
	default:
		reason = stockPacks(e, false)
	}
	return reason
}

// look compares an entry of the packed model with the file's entries of its name. If a look-up finds none of them, it
// returns the reason.
func (p *proof) look(f, right *cachefile.File, e *cachefile.Entry, theirs []*candidate, stock bool) (string, error) {
	matched, problem := false, "it is missing"
	for _, c := range theirs {
		switch {
		case !stock && !c.SameKey(e):
			continue
		case c.Seed != e.Seed:
			problem = fmt.Sprintf("it has seed %08x, and is looked for with %08x here", c.Seed, e.Seed)
			continue
		case !stock && !c.SameContent(e):
			problem = "what is there under its key was packed from other content"
			continue
		}
		c.used = true
		matches, err := equalPayloads(f, c, right, e)
		if err != nil {
			return "", err
		}
		matched = matched || matches
		if !matches && !c.Variant { // a variant is used only after what was packed has been compared with it
			problem = ""
			w := wrong{c.Name, p.cpuOf(e), otherBytes(c.Size, e.Size), c.Offset}
			if !slices.Contains(p.Wrong, w) {
				p.Wrong = append(p.Wrong, w)
			}
		}
	}
	if matched {
		p.Matches++
		p.EqualBytes += e.Size
		problem = ""
	}
	return problem, nil
}

// otherBytes describes how a payload differs from the one packed here.
func otherBytes(size, packedSize int64) string {
	if size != packedSize {
		return fmt.Sprintf("it has %d bytes, and is packed into %d here", size, packedSize)
	}
	return fmt.Sprintf("its %d bytes are not those that it is packed into here", size)
}

// equalPayloads compares two payloads byte for byte: who chooses the bytes can make the checksums equal.
func equalPayloads(f *cachefile.File, c *candidate, right *cachefile.File, e *cachefile.Entry) (bool, error) {
	if c.Size != e.Size {
		return false, nil
	}
	diff, err := litert.Differ(f.Payload(c.Entry), right.Payload(*e))
	return diff < 0 && err == nil, err
}

func (p *proof) holds() bool { return len(p.Wrong) == 0 }

// err returns the error of a subject that is not proven.
func (p *proof) err(subject string) error {
	return fmt.Errorf("%s: %s: %w", subject, console.Plural(len(p.Wrong), "wrong or missing entry"), errUnproven)
}

// fewWrong is how many wrong entries are printed: of another model all are wrong.
const fewWrong = 5

// print writes the proof of a file, if there is one.
func (p *proof) print(w io.Writer, file string) {
	if p == nil {
		return
	}
	for _, x := range p.Wrong[:min(fewWrong, len(p.Wrong))] {
		if x.Entry == "" {
			fmt.Fprintf(w, "%s: %s\n", file, x.Problem)
			continue
		}
		machine := ""
		if x.CPU != "" {
			machine = " for " + x.CPU
		}
		fmt.Fprintf(w, "%s: entry %q%s: %s\n", file, console.Printable(x.Entry), machine, x.Problem)
	}
	if rest := len(p.Wrong) - fewWrong; rest > 0 {
		fmt.Fprintf(w, "%s: and %d more, which --json lists\n", file, rest)
	}
	if p.Uncompared > 0 {
		fmt.Fprintf(w, "note: %s: not compared: %s that no look-up of %s finds here\n", file,
			console.Plural(p.Uncompared, "entry"), p.Model)
	}
	for _, reason := range reasonsOf(p.LeftOut) {
		fmt.Fprintf(w, "note: %s: the stock runtime packs with each load: %s\n", file, reason)
	}
	if p.holds() {
		fmt.Fprintf(w, "%s: proven: %s, %s, equal to what %s is packed into here%s\n",
			file, console.Plural(p.Matches, "entry"), console.Size(p.EqualBytes), p.Model, p.machines())
	}
}

// machines names the CPUs that the model was packed for, if they are not only this machine's.
func (p *proof) machines() string {
	if slices.Equal(p.levels, []string{native}) {
		return ""
	}
	var names []string
	for _, level := range p.levels {
		architecture, name := machineOf(level)
		names = append(names, onCPUs(architecture, name, "this one"))
	}
	return " for " + strings.Join(names, ", ")
}

// verifyLiteRT checks the structure of a LiteRT file, and the name of one for LiteRT-LM's engine if its model is known.
// With a model it packs that and compares every byte.
func verifyLiteRT(ctx context.Context, path string, engines *engineModel, model modelfile.File,
	cpu, library string) error {
	v := &verification{File: path, Format: litertFormat, Problems: []cachefile.Problem{}}
	f, err := litert.Open(path)
	switch {
	case errors.Is(err, litert.ErrDamaged):
		v.Problems = append(v.Problems, cachefile.Problem{Message: errors.Unwrap(err).Error()})
	case err != nil:
		return err
	case f.Stale:
		v.Problems = append(v.Problems, cachefile.Problem{Offset: litert.StaleAt, Message: staleLiteRT})
	default:
		v.Sound, v.Entries, v.PayloadBytes = true, len(f.Entries), f.PayloadBytes()
	}
	if v.Sound && model.Path != "" {
		if v.Proof, err = proveLiteRTAt(ctx, path, model, cpu, library); err != nil {
			return err
		}
	}
	v.Misnamed = engines != nil && !slices.Contains(engines.cache.Names(), filepath.Base(path))
	if info, err := os.Stat(path); err == nil {
		v.writable = info.Mode().Perm()&0o222 != 0
	}
	setResult(ctx, v)
	return v.err()
}

// proveLiteRTAt is proveLiteRT of the file at a path.
func proveLiteRTAt(ctx context.Context, path string, model modelfile.File, cpu, library string) (*proof, error) {
	file, _, err := fd.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return proveLiteRT(ctx, file, model, cpu, library)
}

// proveLiteRT packs a model with LiteRT's code and compares a file with the result.
func proveLiteRT(ctx context.Context, file *os.File, model modelfile.File, cpu, library string) (*proof, error) {
	if err := checkLiteRTModel(model); err != nil {
		return nil, err
	}
	packer, err := newLiteRTPacker(library, cpu)
	if err != nil {
		return nil, err
	}
	work, right, err := packer.packAside(ctx, model, cpu)
	if err != nil {
		return nil, err
	}
	defer work.discard()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	diff, err := litert.Differ(io.NewSectionReader(file, 0, info.Size()), io.NewSectionReader(work, 0, right.FileBytes))
	if err != nil {
		return nil, err
	}
	p := &proof{Model: model.String(), CPU: cpu, Wrong: []wrong{}, levels: []string{cpu}}
	if diff < 0 {
		p.Matches, p.EqualBytes = len(right.Entries), right.PayloadBytes()
		return p, nil
	}
	problem := fmt.Sprintf("from byte %d on it is not the file that LiteRT writes here", diff)
	p.Wrong = append(p.Wrong, wrong{Problem: problem, Offset: diff})
	return p, nil
}
