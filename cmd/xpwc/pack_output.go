package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/digest"
	"xpwc/internal/mapped"
	"xpwc/internal/modelfile"
	"xpwc/internal/output"
	"xpwc/models/described"
	"xpwc/models/executorch"
	"xpwc/models/safetensors"
)

// A packOutput turns the cache packed in a new file into the output.
type packOutput interface {
	// finish makes the output appear, and completes the report. It may leave an existing one as it is if nothing was
	// packed.
	finish(packed bool, r *packReport) error
}

// addToCache copies the entries of an existing cache into the output first.
func (s *pendingOutput) addToCache() error {
	s.replaces = onlyCaches
	if s.original == nil {
		return nil
	}
	switch err := checkCache(s.path); {
	case errors.Is(err, cachefile.ErrOlder):
		return nil // it is replaced
	case err != nil:
		return err
	}
	return withFile(s.path, s.seed)
}

// cacheOutput is a cache file.
type cacheOutput struct{ *pendingOutput }

func (p cacheOutput) finish(packed bool, _ *packReport) error {
	if p.original == nil || packed || p.damaged > 0 {
		return p.publish()
	}
	if recorded, err := p.recorded(); err != nil || !recorded {
		return errors.Join(err, p.keep())
	}
	return p.publish()
}

// recorded reports whether a process that packed nothing recorded the model's stamps in the output. Without them each
// start with the existing file reads the model.
func (p cacheOutput) recorded() (recorded bool, err error) {
	err = p.view(func(f *cachefile.File) error {
		info, err := f.Info()
		recorded = info.Generation > 1
		return err
	})
	return recorded, err
}

// stockOutput is a file for the stock runtime of ExecuTorch. An existing one is replaced.
type stockOutput struct {
	*pendingOutput
	file *stockFile
}

func (p stockOutput) finish(_ bool, r *packReport) error {
	if len(p.file.ExecuTorch) == 0 { // another process packed
		if err := p.file.identify(r.Levels[0].XNNPACK); err != nil {
			return fmt.Errorf("%w; nothing was written to %s", err, r.Output)
		}
	}
	err := p.file.writeFrom(p.pendingOutput)
	if errors.Is(err, errNothing) {
		r.Nothing = fmt.Sprintf("%v: %s", errNothing, strings.Join(reasonsOf(p.file.LeftOut), ", "))
		r.fileFigures = fileFigures{}
		return nil
	}
	if err != nil {
		return err
	}
	r.For, r.PackedFor, r.fileFigures = p.file, p.file.packedFor, p.file.fileFigures
	return p.publish()
}

// seed begins the cache in the output with the entries of another. The new file has an identity of its own, by which
// programs find that a file was replaced and did not only grow. Damaged entries are left out: what the model has of
// them is packed again.
func (s *pendingOutput) seed(f *cachefile.File) error {
	leftOut := func(_ cachefile.Entry, err error) error {
		if !errors.Is(err, cachefile.ErrDamaged) {
			return err
		}
		s.damaged++
		return nil
	}
	return writeCache(s.ctx, f, s.File.File, "copying", nil,
		cachefile.WriteOptions{Format: cachefile.Native, LeftOut: leftOut})
}

// measure takes the figures of a file.
func (f *fileFigures) measure(file *newFile) error {
	return file.view(func(c *cachefile.File) error {
		info, err := c.Info()
		*f = fileFigures{info.Entries, info.PayloadBytes, info.FileBytes}
		return err
	})
}

// checkCache fails if the file at the path is not a sound cache. A program that opens it would pack again, and replace
// it.
func checkCache(path string) error {
	c, err := xpwc.Open(path, &xpwc.Options{ReadOnly: true, Strict: true})
	switch {
	case errors.Is(err, xpwc.ErrDamaged), errors.Is(err, xpwc.ErrForeign), errors.Is(err, xpwc.ErrVersion):
		return leftAsItIs(err)
	case err != nil:
		return err
	}
	return c.Close()
}

// embeddingOutput is a safetensors file with the original and the packed weights.
type embeddingOutput struct {
	*pendingOutput
	model *described.Model
	align int
}

// embedded is where packed weights are in a safetensors file.
type embedded struct {
	Tensor    string `json:"tensor"`
	Offset    int64  `json:"offset"`
	Bytes     int64  `json:"bytes"`
	FileBytes int64  `json:"file_bytes"`
}

// newEmbedding has the cache begin with the packed weights that the model has in its file.
func newEmbedding(s *pendingOutput, m modelfile.Weights, align int) (packOutput, error) {
	d, ok := m.(*described.Model)
	if !ok || d.File() == nil || d.File().Sharded() {
		return nil, usagef("--embed-beside is for models in one .safetensors file")
	}
	if s.original != nil {
		if err := checkEmbedding(s.path); err != nil {
			return nil, err
		}
	}
	if old, ok := d.File().Lookup(safetensors.PackedName); ok {
		f, err := cachefile.NewFile(bytes.NewReader(old.Data), int64(len(old.Data)))
		if err == nil {
			err = s.seed(f)
		}
		if err != nil {
			return nil, fmt.Errorf("the packed weights in %s: %w", d.File().Path(), err)
		}
	}
	return embeddingOutput{s, d, align}, nil
}

// checkEmbedding fails if the file at the path is not one that pack has written.
func checkEmbedding(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return leftAsItIs(err)
	}
	defer f.Close()
	if _, ok := f.Lookup(safetensors.PackedName); !ok {
		return leftAsItIs(fmt.Errorf("%s exists and has no packed weights in it", path))
	}
	return nil
}

func (p embeddingOutput) finish(_ bool, r *packReport) error {
	cache, err := mapped.OpenFile(p.File.File)
	if err != nil {
		return err
	}
	err = p.remake(func(_ *cachefile.File, dst *os.File) error {
		pieces := output.NewPieces(dst)
		metadata := map[string]string{described.MetadataName: p.model.Description()}
		return errors.Join(p.model.File().WritePacked(pieces, cache.Data(), p.align, metadata), pieces.Flush())
	})
	if err := errors.Join(err, cache.Close()); err != nil {
		return err
	}
	if err := p.publish(); err != nil {
		return err
	}
	r.Embedded, err = describeEmbedding(p.path)
	return err
}

func describeEmbedding(path string) (*embedded, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	offset, size, err := f.Section(safetensors.PackedName)
	return &embedded{safetensors.PackedName, offset, size, info.Size()}, err
}

// sealedOutput is a cache file of one model that nobody writes to. An existing one is replaced.
type sealedOutput struct {
	*pendingOutput
	model  modelfile.File
	digest xpwc.Digest // of the model before it was packed
}

func newSealing(s *pendingOutput, m modelfile.File) (packOutput, error) {
	d, err := digestOfModel(m)
	if err == nil {
		err = s.replace(onlyCaches)
	}
	return sealedOutput{s, m, d}, err
}

func (p sealedOutput) finish(_ bool, r *packReport) error {
	digest, err := p.seal(p.model)
	if err == nil && digest != p.digest.String() {
		err = fmt.Errorf("%s was changed while it was packed; nothing was written to %s", p.model.Path, p.path)
	}
	if err != nil {
		return err
	}
	r.Sealed = digest
	if err := r.measure(p.newFile); err != nil {
		return err
	}
	return p.publish()
}

// seal makes the output read-only and records the digest of its model: the given one, or the one that its
// entries were sealed for.
func (s *pendingOutput) seal(model modelfile.File) (digest string, err error) {
	var seal xpwc.Digest
	var programs func(cachefile.Entry) []xpwc.Digest
	if model.Path != "" {
		if programs, err = packingDelegates(model); err == nil {
			seal, err = digestOfModel(model)
		}
	} else {
		err = s.view(func(f *cachefile.File) error { seal, err = sealOf(f); return err })
	}
	if err != nil {
		return "", err
	}
	s.readOnly()
	return seal.String(), s.rewrite("sealing", cachefile.WriteOptions{Seal: &seal, Programs: programs})
}

// packingDelegates returns a function from entries to the delegates of a program that pack them; nil if the model is
// no program.
func packingDelegates(model modelfile.File) (programs func(cachefile.Entry) []xpwc.Digest, err error) {
	if !model.Program() {
		return nil, nil
	}
	p, err := model.OpenProgram()
	if err != nil {
		return nil, err
	}
	delegates, err := p.PackingDelegates()
	return func(e cachefile.Entry) []xpwc.Digest {
		return delegates[executorch.PackedWeight{Kernel: e.Kernel, Bias: e.Bias, Packing: e.Packing}]
	}, errors.Join(err, p.Close())
}

var errNotSealed = errors.New("not all entries are sealed for one model: give the model with --model, " +
	"or push what xpwc pack --sealed wrote")

// sealOf returns the digest of the model that all entries of a file are sealed for.
func sealOf(f *cachefile.File) (digest xpwc.Digest, err error) {
	for e, err := range f.Entries() {
		if err != nil {
			return digest, err
		}
		model, sealed := e.Sealed()
		if !sealed || digest != (xpwc.Digest{}) && model != digest {
			return digest, errNotSealed
		}
		digest = model
	}
	return digest, nil
}

// digestOfModel returns the digest of a model's bytes; of a model in several files, that of their digests one after the
// other. A description is none of them.
func digestOfModel(m modelfile.File) (xpwc.Digest, error) {
	if m.Section != "" {
		m, err := m.Model()
		if err != nil {
			return xpwc.Digest{}, err
		}
		return digestOfPart(m.Path, m.Offset, m.Size)
	}
	var digests []byte
	for _, path := range m.Files() {
		if path == m.Description || path == "" || path == filepath.Clean(m.Path)+".json" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return xpwc.Digest{}, err
		}
		if info.IsDir() {
			continue
		}
		d, err := digestOfPart(path, 0, info.Size())
		if err != nil {
			return xpwc.Digest{}, err
		}
		digests = append(digests, d[:]...)
	}
	if digest := (xpwc.Digest{}); len(digests) == len(digest) {
		return xpwc.Digest(digests), nil
	}
	return xpwc.DigestOf(digests), nil
}

// digestOfPart returns the digest of a part of a file.
func digestOfPart(path string, offset, size int64) (xpwc.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return xpwc.Digest{}, err
	}
	defer f.Close()
	var sum digest.Hash
	_, err = io.Copy(&sum, io.NewSectionReader(f, offset, size))
	return sum.Sum(), err
}

// A location is where a cache is: in a file of its own, or in a safetensors file.
type location struct {
	path string
	in   *embedded // nil for a file of its own
}

// locate finds the cache in the file at path. For every file that is not a safetensors file, package cachefile reports
// the errors.
func locate(path string) (location, error) {
	l := location{path: path}
	if strings.EqualFold(filepath.Ext(path), ".json") {
		return l, nil // an index of safetensors files has no cache in it
	}
	e, err := describeEmbedding(path)
	switch {
	case errors.Is(err, xpwc.ErrUnknownTensor):
		return l, fmt.Errorf("%s: a safetensors file without packed weights; "+
			"xpwc pack --embed-beside makes one with them: %w", path, cachefile.ErrNotCache)
	case err == nil:
		l.in = e
	}
	return l, nil
}

// ofModel adds to the error of a file that is no cache a hint for models.
func ofModel(err error) error {
	if errors.Is(err, cachefile.ErrNotCache) {
		err = fmt.Errorf("%w; xpwc pack makes one of a model, and xpwc run shows a model's inputs and outputs", err)
	}
	return err
}

// withFile calls do with an open cache file, or with the packed weights in a safetensors file.
func withFile(path string, do func(f *cachefile.File) error) error {
	loc, err := locate(path)
	if err != nil {
		return err
	}
	return loc.view(do)
}

// view opens the cache and calls do with it.
func (l location) view(do func(f *cachefile.File) error) error {
	if l.in == nil {
		f, err := cachefile.Open(l.path)
		if err != nil {
			return ofModel(err)
		}
		return errors.Join(do(f), f.Close())
	}
	return l.read(func(packed io.ReaderAt) error {
		f, err := cachefile.NewFile(packed, l.in.Bytes)
		if err != nil {
			return err
		}
		return do(f)
	})
}

func (l location) verify(progress func(done, total int64)) (problems []cachefile.Problem, err error) {
	if l.in == nil {
		problems, err = cachefile.Verify(l.path, progress)
		return problems, ofModel(err)
	}
	err = l.read(func(packed io.ReaderAt) error {
		problems, err = cachefile.VerifyReader(packed, l.in.Bytes, progress)
		return err
	})
	return problems, err
}

// read calls do with a reader of the tensor.
func (l location) read(do func(packed io.ReaderAt) error) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	return errors.Join(do(io.NewSectionReader(f, l.in.Offset, l.in.Bytes)), f.Close())
}

// note describes the start of the offsets.
func (e *embedded) note() string {
	return fmt.Sprintf("the packed weights are the tensor %s, %s from byte %d on; offsets begin there", e.Tensor,
		console.Size(e.Bytes), e.Offset)
}

// packReport is the result of xpwc pack.
type packReport struct {
	Model  string        `json:"model"`
	Output string        `json:"output"`
	Levels []packedLevel `json:"levels"`
	fileFigures
	LeftOut  int          `json:"damaged_entry_count,omitempty"` // of the file that was added to
	Sealed   string       `json:"sealed,omitempty"`              // the digest of the model
	Embedded *embedded    `json:"embedded,omitempty"`
	For      *stockFile   `json:"for,omitempty"`
	Nothing  string       `json:"nothing_packed,omitempty"` // why no file was written
	LiteRT   []litertFile `json:"litert,omitempty"`         // written, or there already

	PackedFor *packedFor `json:"packed_for,omitempty"` // of a file for a stock runtime

	WithoutCache []string `json:"without_cache,omitempty"` // sections of which LiteRT-LM keeps no packed weights
}
