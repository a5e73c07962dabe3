// Package bundle reads the table of contents of files that hold a model with its tokenizer and metadata: bundles of
// LiteRT-LM (.litertlm) and tasks of MediaPipe (.task). It maps and unpacks nothing. [xpwc/models/tflite.Open] opens a
// model where it lies in the bundle:
//
//	b, err := bundle.Open("model.litertlm")
//	s, err := b.Section("prefill_decode")
//	m, err := tflite.Open("model.litertlm", &tflite.Options{Offset: s.Offset, Size: s.Size})
package bundle

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"xpwc/internal/fd"
)

// Errors that callers test for with errors.Is.
var (
	// ErrNotBundle: the file is no bundle of a known format.
	ErrNotBundle = errors.New("not a bundle of LiteRT-LM or MediaPipe")
	// ErrMalformed: the file begins like a bundle, and its table of contents contradicts itself or the file's size.
	ErrMalformed = errors.New("malformed bundle")
	// ErrVersion: it is a bundle of LiteRT-LM of another major version.
	ErrVersion = errors.New("a bundle of another version")
	// ErrUnknownSection: the bundle has no section of that name, or no model in it.
	ErrUnknownSection = errors.New("unknown section")
)

// Format is a kind of bundle.
type Format string

// The formats.
const (
	LiteRTLM Format = "litertlm" // of LiteRT-LM
	Task     Format = "task"     // of MediaPipe: a zip whose members are stored
)

// Kind is the role of a section.
type Kind string

// The kinds.
const (
	Model     Kind = "model"     // a .tflite
	Weights   Kind = "weights"   // of a model that has them outside
	Tokenizer Kind = "tokenizer" // of SentencePiece or Hugging Face
	Metadata  Kind = "metadata"  // of the language model or its executor
	Data      Kind = "data"      // only the bundle's producer knows it
	Unused    Kind = "unused"    // the bundle marks it as outdated
	Unknown   Kind = "unknown"   // this package does not know its type
)

// A Bundle is a file's table of contents.
type Bundle struct {
	Format   Format
	Version  string      // of the format, as "1.7.0"; "" of a task
	Metadata []Attribute // of the whole bundle, in its order
	Sections []Section   // in the bundle's order
}

// A Section is a part of the bundle.
type Section struct {
	Name     string // unique in the bundle, as "prefill_decode"
	Kind     Kind
	Type     string      // the format's name of what it holds, as "TFLiteModel"; "type 12" if it is unknown
	Role     string      // of a model or its weights, as "tf_lite_prefill_decode"; "" if the bundle does not tell it
	Metadata []Attribute // the rest of what the bundle tells about it
	Offset   int64       // in the file, in bytes
	Size     int64       // in bytes
}

// An Attribute is a key with its value as text. A value of a type that this package does not know is "type 13".
type Attribute struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Limits of what a table of contents may have. Bundles have some ten sections, and a header of a few KiB.
const (
	mostHeader     = 1 << 20 // bytes
	mostSections   = 1 << 10
	mostAttributes = 1 << 12
)

// Open reads the table of contents of the file at a path. The error matches [ErrNotBundle], [ErrMalformed],
// [ErrVersion] or what the operating system returned, and names the file.
func Open(path string) (*Bundle, error) {
	f, info, err := fd.OpenRegular(path)
	if errors.Is(err, fd.ErrNotRegular) {
		return nil, fmt.Errorf("%s: not a regular file: %w", path, ErrNotBundle)
	}
	if err != nil {
		return nil, err
	}
	b, err := Read(f, info.Size())
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Recognized reports whether the file at a path begins as bundles do, malformed or not. It is false if the file cannot
// be read.
func Recognized(path string) bool {
	_, err := Open(path)
	return err == nil || errors.Is(err, ErrMalformed) || errors.Is(err, ErrVersion)
}

// Read reads the table of contents of a file of that size. The error matches [ErrNotBundle], [ErrMalformed] or
// [ErrVersion], or is one of reading. Each section of the result lies in the file.
func Read(r io.ReaderAt, size int64) (*Bundle, error) {
	head := make([]byte, min(size, headerStart))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, err
	}
	var b *Bundle
	var err error
	switch {
	case strings.HasPrefix(string(head), magic):
		b, err = readLiteRTLM(r, size, head)
	case strings.HasPrefix(string(head), zipMagic):
		b, err = readTask(r, size)
	default:
		return nil, ErrNotBundle
	}
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for i := range b.Sections {
		s := &b.Sections[i]
		name := s.Name
		for n := 2; used[s.Name]; n++ {
			s.Name = name + "-" + strconv.Itoa(n)
		}
		used[s.Name] = true
	}
	return b, nil
}

// Models returns the sections that are models.
func (b *Bundle) Models() (models []Section) {
	for _, s := range b.Sections {
		if s.Kind == Model {
			models = append(models, s)
		}
	}
	return models
}

// Section returns the section of a name. The error matches [ErrUnknownSection] and lists the sections that the bundle
// has.
func (b *Bundle) Section(name string) (Section, error) {
	var names []string
	for _, s := range b.Sections {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Section{}, fmt.Errorf("%w %q; it has %q", ErrUnknownSection, name, names)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
