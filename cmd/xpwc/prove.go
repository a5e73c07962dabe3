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

	"github.com/spf13/cobra"

	"xpwc/cachefile"
	"xpwc/internal/ask"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
	"xpwc/litert"
	"xpwc/xnnpack"
)

// errUnproven: a file does not have what the model is packed into here.
var errUnproven = errors.New("it does not have what the model is packed into")

// A proof is the result of packing a model to compare a cache file with it.
type proof struct {
	Model      string  `json:"model"`
	CPU        string  `json:"cpu"` // level that it was packed for
	Equal      int     `json:"equal_entry_count"`
	EqualBytes int64   `json:"equal_bytes"`
	Wrong      []wrong `json:"wrong"`
	Uncompared int     `json:"uncompared_entry_count"` // which no look-up of the model finds here
}

// wrong is an entry that the file has for the model and that differs, or one that the model needs and the file does not
// have, or something that the file says of no one entry.
type wrong struct {
	Entry  string `json:"entry"`
	What   string `json:"what"`
	Offset int64  `json:"offset,omitempty"` // of the payload, if there is one
}

func modelFlags(cmd *cobra.Command, m *modelfile.File) {
	cmd.Flags().StringVar(&m.Path, "model", "",
		"`MODEL` (.tflite, .pte, .safetensors, .npy, .ptd) to pack and compare with the file")
	descriptionFlag(cmd, &m.Description)
	dataFlag(cmd, &m.Data)
}

// prove packs a model for a level of CPU, to which it limits this process, into a new cache file in the directory for
// temporary files. It compares with that, byte for byte, every entry that the given file has for the model.
func prove(ctx context.Context, f *cachefile.File, model modelfile.File, cpu string) (p *proof, err error) {
	info, err := f.Info()
	if err == nil && cpu != native {
		err = xnnpack.LimitCPU(cpu)
	}
	if err != nil {
		return nil, err
	}
	work, err := makeFile(ctx, filepath.Join(os.TempDir(), "proof.xpwc"))
	if err != nil {
		return nil, err
	}
	defer work.discard()
	job := packJob{Model: model, CPU: cpu, Name: work.byName()}
	packed, err := job.pack(ctx, work.File.File)
	if err != nil {
		return nil, err
	}
	if err := work.reopen(job.Name); err != nil {
		return nil, err
	}
	if packed.nothing() {
		return nil, fmt.Errorf("%s has no weights that XNNPACK packs through a cache", model.Path)
	}
	p = &proof{Model: model.Path, CPU: cpu, Wrong: []wrong{}}
	stock := info.Format == cachefile.XPWC2
	if !stock && cpu == native {
		p.lookAtEvidence(info.Layouts, packed.Layout)
	}
	return p, work.with(func(right *cachefile.File) error { return p.compare(f, right, stock) })
}

// lookAtEvidence reports what would have a process on this machine look for the model in another layout than it packs
// in.
func (p *proof) lookAtEvidence(layouts []cachefile.Layout, here string) {
	for _, l := range layouts {
		if l.Fingerprint.String() != here && ask.Evidence(l.Fingerprint, l.Families, l.Evidence) != l.Evidence {
			p.Wrong = append(p.Wrong, wrong{What: fmt.Sprintf(
				"the file says that this machine packs in layout %s, and it packs in %s", l.Fingerprint, here)})
		}
	}
}

// A candidate is an entry of the file to prove.
type candidate struct {
	cachefile.Entry
	used bool // a look-up of the model finds it, or could
}

// compare compares the entries of the packed model with those of the file that have their names. In a file for the
// stock runtime the names are those that it looks for, and each is there once at most.
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
		ours[name] = append(ours[name], e)
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		var missing []wrong
		for _, e := range ours[name] {
			why, err := p.look(f, right, &e, theirs[name], stock)
			if err != nil {
				return err
			}
			if why != "" && !(stock && stockPacks(&e) != "") { // what it packs with each load need not be there
				missing = append(missing, wrong{Entry: name, What: why})
			}
		}
		if there := theirs[name]; !stock || len(there) == 0 || !there[0].used {
			p.Wrong = append(p.Wrong, missing...)
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

// look compares an entry of the packed model with the entries of its name that the file has. If a look-up finds none of
// them, it returns why.
func (p *proof) look(f, right *cachefile.File, e *cachefile.Entry, theirs []*candidate, stock bool) (string, error) {
	found, why := false, "it is missing"
	for _, c := range theirs {
		switch {
		case !stock && !c.SameKey(e):
			continue
		case c.Seed != e.Seed:
			why = fmt.Sprintf("it has seed %08x, and is looked for with %08x here", c.Seed, e.Seed)
			continue
		case !stock && !c.SameContent(e):
			why = "what is there under its key was packed from other content"
			continue
		}
		c.used = true
		equal, err := equalPayloads(f, c, right, e)
		if err != nil {
			return "", err
		}
		found = found || equal
		if !equal && !c.Variant { // a variant is used only after what was packed has been compared with it
			why = ""
			if w := (wrong{c.Name, otherBytes(c.Size, e.Size), c.Offset}); !slices.Contains(p.Wrong, w) {
				p.Wrong = append(p.Wrong, w)
			}
		}
	}
	if found {
		p.Equal++
		p.EqualBytes += e.Size
		why = ""
	}
	return why, nil
}

// otherBytes says how a payload differs from what its entry is packed into here.
func otherBytes(size, here int64) string {
	if size != here {
		return fmt.Sprintf("it has %d bytes, and is packed into %d here", size, here)
	}
	return fmt.Sprintf("its %d bytes are not those that it is packed into here", size)
}

// equalPayloads compares two payloads byte for byte: who chooses the bytes can make the checksums equal.
func equalPayloads(f *cachefile.File, c *candidate, right *cachefile.File, e *cachefile.Entry) (bool, error) {
	if c.Size != e.Size {
		return false, nil
	}
	at, err := litert.Differ(f.Payload(c.Entry), right.Payload(*e))
	return at < 0 && err == nil, err
}

func (p *proof) holds() bool { return len(p.Wrong) == 0 }

// err returns the error that what is not proven.
func (p *proof) err(what string) error {
	return fmt.Errorf("%s: %s: %w", what, console.Plural(len(p.Wrong), "wrong or missing entry"), errUnproven)
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
			fmt.Fprintf(w, "%s: %s\n", file, x.What)
			continue
		}
		fmt.Fprintf(w, "%s: entry %q: %s\n", file, console.Printable(x.Entry), x.What)
	}
	if more := len(p.Wrong) - fewWrong; more > 0 {
		fmt.Fprintf(w, "%s: and %d more, which --json lists\n", file, more)
	}
	if p.Uncompared > 0 {
		fmt.Fprintf(w, "note: %s: not compared: %s that no look-up of %s finds here\n", file,
			console.Plural(p.Uncompared, "entry"), p.Model)
	}
	if p.holds() {
		here := "here"
		if p.CPU != native {
			here += " for CPUs of level " + p.CPU
		}
		fmt.Fprintf(w, "%s: proven: %s, %s, equal to what %s is packed into %s\n",
			file, console.Plural(p.Equal, "entry"), console.Size(p.EqualBytes), p.Model, here)
	}
}
