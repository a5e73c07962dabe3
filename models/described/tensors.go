package described

import (
	"path/filepath"
	"strings"

	"xpwc"
	"xpwc/models/executorch"
	"xpwc/models/safetensors"
)

// Tensors is a data map that knows the types and shapes of its tensors. A [safetensors.File] is one. They must not
// change until Close.
type Tensors interface {
	xpwc.DataMap
	// Tensors returns all tensors, in an order that stays the same.
	Tensors() []safetensors.Tensor
	// Lookup returns the tensor of that name, and whether there is one. Its type is empty if that is not known.
	Lookup(name string) (safetensors.Tensor, bool)
	// Close closes the files. Closing twice is harmless.
	Close() error
}

// OpenTensors opens the tensors at a path, by the name's extension: a .safetensors file, the index of a sharded one
// (.json), or a .ptd file of ExecuTorch. The error is that of package safetensors or executorch. The caller closes the
// tensors.
//
// A tensor of a .ptd has its dimensions in the order of memory (DimOrder), so that the weights of a convolution in the
// memory format channels_last are as XNNPACK takes them.
func OpenTensors(path string) (Tensors, error) {
	switch KindOf(path) {
	case FlatTensor:
		f, err := executorch.OpenFile(path)
		if err != nil {
			return nil, err
		}
		return namedData{f}, nil
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Kind is a kind of files with tensors.
type Kind int

// The kinds.
const (
	NoTensors   Kind = iota
	Safetensors      // a file, or the index of a sharded one
	FlatTensor       // a .ptd file
)

// KindOf returns the kind of a path, by its extension.
func KindOf(path string) Kind {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".safetensors", ".json":
		return Safetensors
	case ".ptd":
		return FlatTensor
	}
	return NoTensors
}

// namedData are the tensors in a .ptd file.
type namedData struct{ *executorch.File }

var scalarTypes = map[executorch.ScalarType]safetensors.Dtype{
	executorch.Bool: safetensors.Bool, executorch.Byte: safetensors.U8, executorch.Char: safetensors.I8,
	executorch.Short: safetensors.I16, executorch.UInt16: safetensors.U16, executorch.Int: safetensors.I32,
	executorch.UInt32: safetensors.U32, executorch.Long: safetensors.I64, executorch.UInt64: safetensors.U64,
	executorch.Half: safetensors.F16, executorch.BFloat16: safetensors.BF16, executorch.Float: safetensors.F32,
	executorch.Double: safetensors.F64,
}

func (f namedData) Tensors() []safetensors.Tensor {
	var out []safetensors.Tensor
	for _, d := range f.NamedData() {
		out = append(out, ofNamedData(d))
	}
	return out
}

func (f namedData) Lookup(name string) (safetensors.Tensor, bool) {
	d, ok := f.File.Lookup(name)
	return ofNamedData(d), ok
}

func ofNamedData(d executorch.NamedData) safetensors.Tensor {
	t := safetensors.Tensor{Name: d.Name, Data: d.Data}
	if d.Meta == nil {
		return t
	}
	t.Dtype, t.Shape = scalarTypes[d.Meta.Type], make([]int, len(d.Meta.Sizes))
	for i, dimension := range d.Meta.DimOrder {
		t.Shape[i] = d.Meta.Sizes[dimension]
	}
	return t
}
