package safetensors

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse reads any bytes as a file: what is malformed must be an error, what is not must be written back to the
// same tensors.
func FuzzParse(f *testing.F) {
	f.Add(golden(f))
	f.Add(raw(`{}`, 0))
	f.Add(raw(`{"a":`+tensorJSON("F4", "[3,2]", "[0,3]")+`,"b":`+tensorJSON("F32", "[0]", "[3,3]")+`}`, 3))
	f.Add(raw(`{"a":`+tensorJSON("U8", "[4294967296,4294967296,0]", "[0,0]")+`}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseBytes(b)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		requireWithin(t, h, int64(len(b)))
		var tensors []Tensor
		for _, e := range h.tensors {
			tensors = append(tensors, Tensor{e.name, e.dtype, e.shape, b[h.data+e.begin : h.data+e.end]})
		}
		var out bytes.Buffer
		require.NoError(t, Write(&out, tensors, &WriteOptions{Metadata: h.metadata}))
		parsed, err := parseBytes(out.Bytes())
		require.NoError(t, err)
		requireWithin(t, parsed, int64(out.Len()))
	})
}

// FuzzHeader does the same with the bytes after the header's length, which so is always right.
func FuzzHeader(f *testing.F) {
	f.Add(`{"a":`+tensorJSON("F32", "[2,2]", "[0,16]")+`}`, uint16(16))
	f.Add(`{"__metadata__":{"a":"b"},"a":`+tensorJSON("BF16", "[3]", "[2,8]")+
		`,"b":`+tensorJSON("F16", "[]", "[0,2]")+`}  `, uint16(8))
	f.Fuzz(func(t *testing.T, header string, data uint16) {
		b := raw(header, int(data))
		if h, err := parseBytes(b); err == nil {
			requireWithin(t, h, int64(len(b)))
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
	})
}

// FuzzIndex reads any bytes as the index of a sharded model.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":4},"weight_map":{"a":"model-00001-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../b"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parseIndex(b); err != nil {
			require.ErrorIs(t, err, ErrMalformed)
		}
	})
}
