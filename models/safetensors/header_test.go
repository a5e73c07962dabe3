package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// raw is a file with this header and so many bytes after it.
func raw(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func tensorJSON(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"dtype":%q,"shape":%s,"data_offsets":%s}`, dtype, shape, offsets)
}

func TestMalformedFilesAreRefusedWithWhatIsWrong(t *testing.T) {
	tensor := tensorJSON("U8", "[4]", "[0,4]")
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":                {nil, "0 bytes are no header"},
		"less than a length":     {make([]byte, 7), "7 bytes are no header"},
		"no header":              {make([]byte, 8), "does not begin with '{'"},
		"header beyond the file": {raw(`{}`, 0)[:9], "a header of 2 bytes in a file of 9"},
		"header beyond 100 MB": {append(binary.LittleEndian.AppendUint64(nil, 100_000_001), '{'),
			"more than 100000000"},
		"header of 2^64-1 bytes":  {append(bytes.Repeat([]byte{255}, 8), '{'), "more than 100000000"},
		"space before the header": {raw(` {}`, 0), "does not begin with '{'"},
		"no object":               {raw(`[]`, 0), "does not begin with '{'"},
		"header cut off":          {raw(`{"a":`+tensor, 4), "unexpected EOF"},
		"two objects":             {raw(`{}{}`, 0), "after top-level value"},
		"text after the object":   {raw(`{} x`, 0), "after top-level value"},
		"zeros after the object":  {raw("{}\x00\x00", 0), "after top-level value"},
		"name twice":              {raw(`{"a":`+tensor+`,"a":`+tensor+`}`, 4), "duplicate"},
		"member twice": {raw(`{"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}`, 4),
			"duplicate"},
		"metadata twice":       {raw(`{"__metadata__":{},"__metadata__":{}}`, 0), "duplicate"},
		"metadata name twice":  {raw(`{"__metadata__":{"a":"","a":""}}`, 0), "duplicate"},
		"metadata of a number": {raw(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		"metadata of null":     {raw(`{"__metadata__":{"a":null}}`, 0), `"a" is no string`},
		"invalid UTF-8":        {raw("{\"\xff\":"+tensor+"}", 4), "UTF-8"},
		"another member":       {raw(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}}`, 4), "unknown"},
		"member in capitals":   {raw(`{"a":{"Dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, 4), "unknown"},
		"no dtype":             {raw(`{"a":{"shape":[4],"data_offsets":[0,4]}}`, 4), `unknown dtype ""`},
		"no shape":             {raw(`{"a":{"dtype":"U8","data_offsets":[0,4]}}`, 4), "are needed"},
		"null for a shape":     {raw(`{"a":`+tensorJSON("U8", "null", "[0,4]")+`}`, 4), "are needed"},
		"no offsets":           {raw(`{"a":{"dtype":"U8","shape":[4]}}`, 4), "are needed"},
		"one offset":           {raw(`{"a":`+tensorJSON("U8", "[4]", "[4]")+`}`, 4), "are needed"},
		"three offsets":        {raw(`{"a":`+tensorJSON("U8", "[4]", "[0,4,4]")+`}`, 4), "are needed"},
		"tensor of null":       {raw(`{"a":null}`, 0), "are needed"},
		"tensor of a number":   {raw(`{"a":1}`, 0), `"/a`},
		"fraction":             {raw(`{"a":`+tensorJSON("U8", "[4.0]", "[0,4]")+`}`, 4), `"/a`},
		"number in quotes":     {raw(`{"a":`+tensorJSON("U8", `["4"]`, "[0,4]")+`}`, 4), `"/a`},
		"dimension of 2^63": {raw(`{"a":`+tensorJSON("U8", "[9223372036854775808]", "[0,4]")+`}`, 4),
			`"/a`},
		"negative dimension":      {raw(`{"a":`+tensorJSON("U8", "[-4]", "[0,4]")+`}`, 4), "negative"},
		"two negative dimensions": {raw(`{"a":`+tensorJSON("U8", "[-2,-2]", "[0,4]")+`}`, 4), "negative"},
		"overflow": {raw(`{"a":`+tensorJSON("U8", "[4294967296,4294967296]", "[0,0]")+`}`, 0),
			"more than 2^63"},
		"overflow before a zero": {raw(`{"a":`+tensorJSON("U8", "[4294967296,4294967296,0]", "[0,0]")+`}`, 0),
			"more than 2^63"},
		"overflow by the type": {raw(`{"a":`+tensorJSON("F64", "[4611686018427387905]", "[0,8]")+`}`, 8),
			"more than 2^63"},
		"unknown type":             {raw(`{"a":`+tensorJSON("F128", "[4]", "[0,64]")+`}`, 64), `unknown dtype "F128"`},
		"type in small letters":    {raw(`{"a":`+tensorJSON("u8", "[4]", "[0,4]")+`}`, 4), `unknown dtype "u8"`},
		"half a byte":              {raw(`{"a":`+tensorJSON("F4", "[3]", "[0,2]")+`}`, 2), "whole byte"},
		"three quarters of a byte": {raw(`{"a":`+tensorJSON("F6_E2M3", "[1]", "[0,1]")+`}`, 1), "whole byte"},
		"size of another shape": {raw(`{"a":`+tensorJSON("F32", "[4]", "[0,4]")+`}`, 4),
			"4 bytes for shape [4] of F32, which has 16"},
		"offsets the wrong way":   {raw(`{"a":`+tensorJSON("U8", "[4]", "[4,0]")+`}`, 4), "bytes 4 to 0"},
		"negative offset":         {raw(`{"a":`+tensorJSON("U8", "[4]", "[-4,0]")+`}`, 4), "bytes -4 to 0"},
		"offset beyond the file":  {raw(`{"a":`+tensorJSON("U8", "[4]", "[0,4]")+`}`, 3), "bytes 0 to 4 of 3"},
		"hole before the first":   {raw(`{"a":`+tensorJSON("U8", "[4]", "[1,5]")+`}`, 5), "ends at 0"},
		"hole":                    {raw(`{"a":`+tensor+`,"b":`+tensorJSON("U8", "[1]", "[5,6]")+`}`, 6), "ends at 4"},
		"overlap":                 {raw(`{"a":`+tensor+`,"b":`+tensorJSON("U8", "[2]", "[3,5]")+`}`, 5), "ends at 4"},
		"the same bytes twice":    {raw(`{"a":`+tensor+`,"b":`+tensor+`}`, 4), "ends at 4"},
		"bytes of no tensor":      {raw(`{"a":`+tensor+`}`, 5), "1 bytes follow the last tensor"},
		"only bytes of no tensor": {raw(`{}`, 1), "1 bytes follow"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseBytes(c.file)
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestUnusualFilesOfTheFormatAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want []entry
	}{
		"no tensors":        {raw(`{}`, 0), nil},
		"only spaces after": {raw(`{}      `, 0), nil},
		"null for metadata": {raw(`{"__metadata__":null}`, 0), nil},
		"scalar":            {raw(`{"a":`+tensorJSON("F64", "[]", "[0,8]")+`}`, 8), []entry{{"a", F64, []int{}, 0, 8}}},
		"empty tensors anywhere": {
			raw(`{"a":`+tensorJSON("U8", "[2]", "[0,2]")+`,"b":`+tensorJSON("F32", "[7,0]", "[0,0]")+
				`,"c":`+tensorJSON("I64", "[0]", "[2,2]")+`}`, 2),
			[]entry{{"b", F32, []int{7, 0}, 0, 0}, {"a", U8, []int{2}, 0, 2}, {"c", I64, []int{0}, 2, 2}},
		},
		"order other than of the bytes": {
			raw(`{"a":`+tensorJSON("U8", "[1]", "[3,4]")+`,"b":`+tensorJSON("U8", "[3]", "[0,3]")+`}`, 4),
			[]entry{{"b", U8, []int{3}, 0, 3}, {"a", U8, []int{1}, 3, 4}},
		},
		"elements of less than a byte": {
			raw(`{"a":`+tensorJSON("F4", "[3,2]", "[0,3]")+`,"b":`+tensorJSON("F6_E3M2", "[4]", "[3,6]")+`}`, 6),
			[]entry{{"a", "F4", []int{3, 2}, 0, 3}, {"b", "F6_E3M2", []int{4}, 3, 6}},
		},
		"empty and escaped names": {
			raw(`{"":`+tensorJSON("U8", "[1]", "[0,1]")+`,"\u00e4\n":`+tensorJSON("U8", "[1]", "[1,2]")+`}`, 2),
			[]entry{{"", U8, []int{1}, 0, 1}, {"ä\n", U8, []int{1}, 1, 2}},
		},
		"line breaks and tabs": {raw("{\n\t\"a\": "+tensorJSON("U8", "[ 1 ]", "[0 , 1]")+"\n}\n", 1),
			[]entry{{"a", U8, []int{1}, 0, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := parseBytes(c.file)
			require.NoError(t, err)
			require.Equal(t, c.want, h.tensors)
		})
	}
}

// golden is what the reference implementation wrote; see testdata/README.md.
func TestAFileCutOffAnywhereIsRefused(t *testing.T) {
	good := golden(t)
	_, err := parseBytes(good)
	require.NoError(t, err)
	for n := range good {
		_, err := parseBytes(good[:n])
		require.ErrorIs(t, err, ErrMalformed, "%d of %d bytes", n, len(good))
	}
	_, err = parseBytes(append(bytes.Clone(good), 0))
	require.ErrorIs(t, err, ErrMalformed)
}

func TestADamagedHeaderIsRefusedOrReadWithinTheFile(t *testing.T) {
	good := golden(t)
	h, err := parseBytes(good)
	require.NoError(t, err)
	for i := range h.data {
		for _, flip := range []byte{0x01, 0x10, 0x80, 0xff} {
			bad := bytes.Clone(good)
			bad[i] ^= flip
			if h, err := parseBytes(bad); err == nil {
				requireWithin(t, h, int64(len(bad)))
			} else {
				require.ErrorIs(t, err, ErrMalformed)
			}
		}
	}
}

// requireWithin sees that the tensors cover a file of that size.
func requireWithin(t *testing.T, h *header, size int64) {
	t.Helper()
	offset := h.data
	for _, e := range h.tensors {
		require.Equal(t, offset, h.data+e.begin, e.name)
		offset = h.data + e.end
	}
	require.Equal(t, size, offset)
}

func TestEveryTypeHasItsSize(t *testing.T) {
	for bits, names := range map[int]string{
		4: "F4", 6: "F6_E2M3 F6_E3M2", 8: "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
		16: "I16 U16 F16 BF16",
		32: "I32 U32 F32", 64: "C64 F64 I64 U64", 0: "F128 f32 Q4",
	} {
		for name := range strings.FieldsSeq(names) {
			require.Equal(t, bits, Dtype(name).Bits(), name)
		}
	}
}

func parseBytes(file []byte) (*header, error) { return parse(bytes.NewReader(file), int64(len(file))) }
