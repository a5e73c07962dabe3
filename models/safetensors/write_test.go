package safetensors

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// offsets gives where in the file each tensor begins.
func offsets(t *testing.T, b []byte) map[string]int64 {
	t.Helper()
	h, err := parseBytes(b)
	require.NoError(t, err)
	out := map[string]int64{}
	for _, e := range h.tensors {
		out[e.name] = h.data + e.begin
	}
	return out
}

func f32(name string, n int) Tensor {
	return Tensor{Name: name, Dtype: F32, Shape: []int{n}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, n)}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	in := open(t, "testdata/reference.safetensors")
	out := open(t, save(t, "copy.safetensors", written(t, in.Tensors(), &WriteOptions{Metadata: in.Metadata()})))
	require.Equal(t, in.Metadata(), out.Metadata())
	require.ElementsMatch(t, in.Tensors(), out.Tensors())
}

func TestTheSameTensorsGiveTheSameFile(t *testing.T) {
	in := open(t, "testdata/reference.safetensors")
	o := &WriteOptions{Metadata: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"},
		Alignment: 128}
	first := written(t, in.Tensors(), o)
	for range 10 {
		require.Equal(t, first, written(t, in.Tensors(), o))
	}
}

func TestElementsAreAlignedWhateverTheOrder(t *testing.T) {
	b := written(t, []Tensor{u8("a", 1, 2, 3), f32("b", 3), {"c", F16, []int{1}, []byte{1, 2}},
		{"d", F64, nil, make([]byte, 8)}, u8("e", 1)}, nil)
	offset := offsets(t, b)
	require.Len(t, offset, 5, "no padding is needed")
	require.Zero(t, offset["d"]%8)
	require.Zero(t, offset["b"]%4)
	require.Zero(t, offset["c"]%2)
	require.Less(t, offset["a"], offset["e"], "tensors of one type keep their order")
}

func TestTheFirstTensorBeginsWhereAsked(t *testing.T) {
	for _, alignment := range []int{1, 8, 16, 64, 4096, 65536, 1 << 20} {
		offset := offsets(t, written(t, []Tensor{f32("a", 2), u8("b", 1)},
			&WriteOptions{Alignment: alignment}))
		require.Zero(t, offset["a"]%int64(max(alignment, 8)), alignment)
		require.Equal(t, offset["a"]+8, offset["b"])
	}
}

func TestTheFirstTensorBeginsWhereAskedAndOthersStayAligned(t *testing.T) {
	packed := u8("packed", bytes.Repeat([]byte{9}, 1001)...)
	in := []Tensor{packed, f32("a", 5), {"d", F64, []int{1}, make([]byte, 8)}, u8("more", 1, 2, 3), f32("b", 1)}
	o := &WriteOptions{Alignment: 65536, Metadata: map[string]string{"k": "v"}}
	b := written(t, in, o)
	offset := offsets(t, b)
	require.Zero(t, offset["d"]%8)
	require.Zero(t, offset["a"]%4)
	require.EqualValues(t, 65536, offset["packed"], "it comes first, so the header alone aligns it")

	f := open(t, save(t, "f", b))
	count := 0
	for _, tensor := range f.Tensors() {
		if !strings.HasPrefix(tensor.Name, PaddingPrefix) {
			count++
			continue
		}
		require.Equal(t, make([]byte, len(tensor.Data)), tensor.Data)
	}
	require.Equal(t, len(in), count)
	for _, want := range in {
		got, ok := f.Lookup(want.Name)
		require.True(t, ok)
		require.Equal(t, want.Data, got.Data)
	}
	require.Equal(t, b, written(t, f.Tensors(), o), "written again, padding does not pile up")
}

func TestWhatTheFormatCannotHoldIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		tensors []Tensor
		options *WriteOptions
		want    string
	}{
		"name twice":           {[]Tensor{u8("a", 1), u8("a", 1)}, nil, "twice"},
		"name of the metadata": {[]Tensor{u8("__metadata__", 1)}, nil, "cannot have the name"},
		"name of no text":      {[]Tensor{u8("\xff", 1)}, nil, "cannot have the name"},
		"metadata of no text":  {nil, &WriteOptions{Metadata: map[string]string{"a": "\xff"}}, "metadata"},
		"unknown type":         {[]Tensor{{"a", "Q4", []int{1}, []byte{1}}}, nil, "unknown dtype"},
		"size of another shape": {[]Tensor{{"a", F32, []int{2}, make([]byte, 4)}}, nil,
			"4 bytes for shape [2] of F32"},
		"half a byte": {[]Tensor{{"a", "F4", []int{1}, []byte{1}}}, nil, "whole byte"},
		"alignment of three": {[]Tensor{u8("a", 1)}, &WriteOptions{Alignment: 24},
			"power of two"},
		"alignment beyond bounds": {[]Tensor{u8("a", 1)}, &WriteOptions{Alignment: 128 << 20},
			"power of two"},
		"alignment below zero": {[]Tensor{u8("a", 1)}, &WriteOptions{Alignment: -8}, "power of two"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := Write(&out, c.tensors, c.options)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, out.Len())
		})
	}
}

// limited fails once n bytes are written.
type limited struct{ n int }

func (l *limited) Write(b []byte) (int, error) {
	if l.n -= len(b); l.n < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestAnErrorOfTheWriterIsReturned(t *testing.T) {
	tensors := []Tensor{f32("a", 2), u8("b", 1)}
	whole := len(written(t, tensors, nil))
	for n := range whole {
		err := Write(&limited{n}, tensors, nil)
		require.True(t, errors.Is(err, io.ErrShortWrite), n)
	}
	require.NoError(t, Write(&limited{whole}, tensors, nil))
}
