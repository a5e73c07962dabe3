package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
)

func golden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.safetensors")
	require.NoError(t, err)
	return b
}

func save(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// written is a file that Write made.
func written(t testing.TB, tensors []Tensor, options *WriteOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Write(&out, tensors, options))
	return out.Bytes()
}

func u8(name string, content ...byte) Tensor {
	return Tensor{Name: name, Dtype: U8, Shape: []int{len(content)}, Data: content}
}

// content is what a session would see of a tensor.
func content(t testing.TB, d xpwc.Tensor) []byte {
	t.Helper()
	if d.Fill == nil {
		return d.Data
	}
	require.Nil(t, d.Data)
	b := make([]byte, d.Size)
	require.NoError(t, d.Fill(b))
	return b
}

func TestWhatTheReferenceImplementationWroteIsRead(t *testing.T) {
	f := open(t, "testdata/reference.safetensors")
	require.Equal(t, map[string]string{"format": "np", "made by": "safetensors"}, f.Metadata())
	want := map[string]Tensor{}
	for _, w := range []Tensor{
		{"weight", F32, []int{2, 3},
			[]byte("\x00\x00\x20\xc0\x00\x00\xc0\xbf\x00\x00\x00\xbf\x00\x00\x00\x3f\x00\x00\xc0\x3f\x00\x00\x20\x40")},
		{"bias", F16, []int{2}, []byte("\x00\x3c\x00\xc0")},
		{"scale", F64, []int{}, []byte("\x00\x00\x00\x00\x00\x00\xe0\x3f")},
		{"brain", BF16, []int{3}, []byte("\x80\x3f\x00\xc0\x40\x40")},
		{"eight", "F8_E4M3", []int{2}, []byte{0x38, 0xb8}},
		{"four", "F4", []int{4}, []byte{0x21, 0x43}},
		{"index", I64, []int{2, 1}, []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x07\x00\x00\x00\x00\x00\x00\x00")},
		{"mask", Bool, []int{3}, []byte{1, 0, 1}},
		{"empty", I32, []int{0, 4}, []byte{}},
	} {
		want[w.Name] = w
	}
	require.Len(t, f.Tensors(), len(want))
	for _, got := range f.Tensors() {
		require.Equal(t, want[got.Name], got)
		tensor, ok := f.Lookup(got.Name)
		require.True(t, ok)
		require.Equal(t, got, tensor)
		d, err := f.Tensor(got.Name)
		require.NoError(t, err)
		require.Equal(t, got.Data, content(t, d))
		digest, err := d.Identity.Digest()
		require.NoError(t, err)
		require.Equal(t, xpwc.DigestOf(got.Data), digest)
		require.Equal(t, f.Path(), d.Identity.Source)
	}
	_, ok := f.Lookup("absent")
	require.False(t, ok)
	_, err := f.Tensor("absent")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.ErrorContains(t, err, "reference.safetensors")
}

func TestTensorsAreGivenInPlaceUnlessCCouldNotReadThemThere(t *testing.T) {
	page := os.Getpagesize()
	odd := raw(`{"a":`+tensorJSON("F32", "[2]", "[0,8]")+`,"b":`+tensorJSON("U8", "[3]", "[8,11]")+`}  `, 11)
	require.NotZero(t, (len(odd)-11)%4, "its header ends where floats cannot begin")
	for _, c := range []struct {
		name    string
		file    []byte
		inPlace map[string]bool
	}{
		{"aligned", written(t, []Tensor{u8("a", 1, 2, 3), u8("b", 4)}, nil), map[string]bool{"a": true, "b": true}},
		{"not aligned", odd, map[string]bool{"a": false, "b": true}},
		{"to the end of a page", written(t, []Tensor{u8("a", make([]byte, page)...), u8("b", make([]byte, page)...)},
			&WriteOptions{Alignment: page}),
			map[string]bool{"a": true, "b": false}},
		{"127 bytes before it", written(t, []Tensor{u8("a", make([]byte, page-127)...)},
			&WriteOptions{Alignment: page}), map[string]bool{"a": false}},
		{"128 bytes before it", written(t, []Tensor{u8("a", make([]byte, page-128)...)},
			&WriteOptions{Alignment: page}), map[string]bool{"a": true}},
	} {
		f := open(t, save(t, "f", c.file))
		for name, inPlace := range c.inPlace {
			want, ok := f.Lookup(name)
			require.True(t, ok)
			d, err := f.Tensor(name)
			require.NoError(t, err)
			require.Equal(t, inPlace, d.Fill == nil, "%s: %s", c.name, name)
			require.Equal(t, want.Data, content(t, d))
			if inPlace {
				require.Same(t, &want.Data[0], &d.Data[0])
			} else {
				require.Error(t, d.Fill(make([]byte, d.Size+1)))
			}
			d.Evict()
			require.Equal(t, want.Data, content(t, d))
		}
	}
}

func TestAnotherFileHasOtherStamps(t *testing.T) {
	path := save(t, "f", written(t, []Tensor{u8("a", 1, 2), u8("b", 1, 2)}, nil))
	stamps := map[string]bool{"": true}
	for range 2 {
		f := open(t, testkit.Settled(t, path))
		for _, name := range []string{"a", "b"} {
			d, err := f.Tensor(name)
			require.NoError(t, err)
			require.False(t, stamps[d.Identity.Stamp], "the stamp of %s is another's", name)
			stamps[d.Identity.Stamp] = true
		}
		require.NoError(t, f.Close())
		require.NoError(t, os.WriteFile(path+"2", written(t, []Tensor{u8("a", 1, 3), u8("b", 1, 2)}, nil), 0o600))
		require.NoError(t, os.Rename(path+"2", path))
	}
}

func TestAClosedFileGivesNoBytes(t *testing.T) {
	f, err := Open("testdata/reference.safetensors")
	require.NoError(t, err)
	d, err := f.Tensor("weight")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Tensor("weight")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.ErrorContains(t, err, "reference.safetensors")
	_, err = d.Identity.Digest()
	require.ErrorIs(t, err, xpwc.ErrClosed)
	d.Evict()
	require.Len(t, f.Tensors(), 9)
	got, ok := f.Lookup("weight")
	require.True(t, ok)
	require.Equal(t, []int{2, 3}, got.Shape)
	require.Nil(t, got.Data)
}

func TestAFileThatCannotBeOpenedIsAnErrorThatNamesIt(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent.safetensors")
	_, err := Open(absent)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, absent)
	bad := save(t, "bad.safetensors", golden(t)[:100])
	_, err = Open(bad)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, bad)
}

// sharded writes files into one directory and returns the path of the index among them.
func sharded(t testing.TB, index string, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	path := filepath.Join(dir, "model.safetensors.index.json")
	require.NoError(t, os.WriteFile(path, []byte(index), 0o600))
	return path
}

func TestAShardedModelIsOneFileByItsIndex(t *testing.T) {
	path := sharded(t, `{"metadata":{"total_size":4,"by":"hand"},
		"weight_map":{"a":"2.safetensors","b":"sub/1.safetensors","c":"2.safetensors"}}`,
		map[string][]byte{
			"2.safetensors":     written(t, []Tensor{u8("c", 7), u8("a", 1, 2), u8("b", 0)}, nil),
			"sub/1.safetensors": written(t, []Tensor{u8("b", 3), u8("unlisted", 9)}, nil),
		})
	f := open(t, path)
	require.Equal(t, path, f.Path())
	require.Empty(t, f.Metadata())
	require.Equal(t, []Tensor{u8("c", 7), u8("a", 1, 2), u8("b", 3)}, f.Tensors())
	for name, source := range map[string]string{"a": "2.safetensors", "b": "sub/1.safetensors"} {
		d, err := f.Tensor(name)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(filepath.Dir(path), filepath.FromSlash(source)), d.Identity.Source)
	}
	_, err := f.Tensor("unlisted")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.NoError(t, f.Close())
	_, err = f.Tensor("a")
	require.ErrorIs(t, err, xpwc.ErrClosed)
}

func TestAnIndexThatDoesNotFitItsFilesIsRefused(t *testing.T) {
	good := written(t, []Tensor{u8("a", 1)}, nil)
	for name, c := range map[string]struct {
		index, want string
		sentinel    error
	}{
		"no JSON":                {`x`, "index:", ErrMalformed},
		"no weight_map":          {`{"metadata":{}}`, "no weight_map", ErrMalformed},
		"null for weight_map":    {`{"weight_map":null}`, "no weight_map", ErrMalformed},
		"name twice":             {`{"weight_map":{"a":"f","a":"f"}}`, "duplicate", ErrMalformed},
		"file of a number":       {`{"weight_map":{"a":1}}`, "index:", ErrMalformed},
		"no file name":           {`{"weight_map":{"a":""}}`, "beside the index", ErrMalformed},
		"file elsewhere":         {`{"weight_map":{"a":"../f"}}`, "beside the index", ErrMalformed},
		"absolute path":          {`{"weight_map":{"a":"/f"}}`, "beside the index", ErrMalformed},
		"tensor of another file": {`{"weight_map":{"b":"f"}}`, `tensor "b" is not in f`, ErrMalformed},
		"file that is not there": {`{"weight_map":{"a":"g"}}`, "g", os.ErrNotExist},
		"damaged file":           {`{"weight_map":{"a":"bad"}}`, "bad", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(sharded(t, c.index, map[string][]byte{"f": good, "bad": good[:20]}))
			require.ErrorIs(t, err, c.sentinel)
			require.ErrorContains(t, err, c.want)
		})
	}
}
