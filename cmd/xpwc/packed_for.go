package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/fd"
	"xpwc/internal/modelfile"
)

// packedFor is what a file for the stock runtime says of the program that it was packed for, as JSON in its note: the
// runtime finds packed weights by name and seed, which a program that was exported again may have, too.
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

// check returns an error if the model's files are others than they were: nobody knows then which were packed.
func (p *packedFor) check() error {
	if p == nil {
		return nil
	}
	now, err := newPackedFor(p.model, p.CPU)
	if err == nil && !p.sameProgram(now) {
		err = fmt.Errorf("%s: %w", p.model.Path, xpwc.ErrSourceChanged)
	}
	return err
}

// readPackedFor reads a note, which may be anybody's: nil if it is none of this tool's.
func readPackedFor(note string) *packedFor {
	p := &packedFor{}
	if note == "" || json.Unmarshal([]byte(note), p) != nil || len(p.Files) == 0 {
		return nil
	}
	return p
}

// note returns the text for a file; "" for none.
func (p *packedFor) note() (string, error) {
	if p == nil {
		return "", nil
	}
	b, err := json.Marshal(p)
	return string(b), err
}

// sameProgram reports whether the files of two have the same content, whatever they are called.
func (p *packedFor) sameProgram(other *packedFor) bool {
	return slices.EqualFunc(p.Files, other.Files, func(a, b programFile) bool { return a.SHA256 == b.SHA256 })
}

// String names the program's files, with as much of their digests as distinguishes them.
func (p *packedFor) String() string {
	var files []string
	for _, f := range p.Files {
		sum := console.Printable(f.SHA256)
		files = append(files, fmt.Sprintf("%s (SHA-256 %.12s…)", console.Printable(f.Name), sum))
	}
	return strings.Join(files, ", ")
}
