package tflite

import (
	"errors"
	"fmt"
	"io/fs"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/mapped"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A File is a .tflite file that is mapped once for several of its signatures, each of which is planned when it is
// opened. All have the content that the path had when OpenFile was called, also if another file replaces it.
// It must not be changed in place. Methods may be called from many goroutines.
type File struct {
	file     *mapped.File
	contents *contents
}

// OpenFile maps a file read-only, and checks what its signatures have in common. Of the options it uses Offset and
// Size. Errors: as of [Open]. The caller closes the file when everything made of its models is closed.
func OpenFile(path string, o *Options) (*File, error) {
	if o == nil {
		o = &Options{}
	}
	m, err := o.open(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	f := &File{file: m}
	if err := fault.Try(func() { f.contents = readContents(m.Data()) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open model %s: %w", path, err), m.Close())
	}
	return f, nil
}

// Signatures returns the names of the signatures, in the file's order, whether or not they can be run.
func (f *File) Signatures() []string { return signatureNames(f.contents.signatures) }

// Inputs returns the inputs of a signature, in its order, as the file declares them. The rest of the signature is
// checked when it is opened. Errors: as of Open.
func (f *File) Inputs(signature string) (inputs []models.Value, err error) {
	err = f.view(func(data []byte) { inputs = f.contents.inputs(data, signature) })
	return inputs, err
}

// Open checks a signature and makes a model of it, which reads the file's mapping and is closed with the file. Errors:
// as of [Open].
func (f *File) Open(signature string) (m *Model, err error) {
	err = f.view(func(data []byte) {
		m = f.contents.load(data, Options{Signature: signature}).model(f.file)
		m.shared = f
	})
	return m, err
}

// view calls do with the file's bytes.
func (f *File) view(do func(data []byte)) error {
	err := f.file.View(func(data []byte) error { return fault.Try(func() { do(data) }) })
	if errors.Is(err, fs.ErrClosed) {
		err = xpwc.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("open model %s: %w", f.file.Path(), err)
	}
	return nil
}

// Close unmaps the file. Subgraphs, runtimes that read constants at inference, loaders and sessions made of its models
// must be gone before. What is asked of the file and its models afterwards is an error that matches [xpwc.ErrClosed].
// Closing twice is harmless.
func (f *File) Close() error { return f.file.Close() }

// inputs describes the inputs of a signature.
func (c *contents) inputs(file []byte, name string) (inputs []models.Value) {
	p := &parser{contents: c, subgraphs: readModel(file).Tables(modelSubgraphs)}
	s := choose(c.signatures, name)
	tables := p.subgraphs.Table(p.number(s)).Tables(subgraphTensors)
	for i, n := range s.tensors[0] {
		if n >= tables.Len() {
			malformed("signature %q names tensor %d of %d", s.name, n, tables.Len())
		}
		v := c.readTensor(n, tables.Table(n)).input(xnnpack.ValueID(i))
		v.Name = s.called[0][i]
		inputs = append(inputs, v)
	}
	return inputs
}

// input describes an input that is not planned.
func (t tensor) input(id xnnpack.ValueID) (v models.Value) {
	shape := ints(t.shape)
	fault.Wrap(func() {
		if t.element() != t.dtype { // programs give the integers: see inputsOfInt16
			t = tensor{name: t.name, dtype: t.dtype, step: t.int16Step()}
		}
		v = t.external(id, shape, func() xnnpack.Tensor { return describe(t.name, t.dtype, t.quantization, shape) })
	}, "input %q", t.name)
	return v
}
