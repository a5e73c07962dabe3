package npy

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/safetensors"
)

// raw is a file of that version with this header and so many bytes after it.
func raw(version byte, dictionary string, data int) []byte {
	b := append([]byte(magic), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dictionary)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dictionary)))
	}
	return append(append(b, dictionary...), make([]byte, data)...)
}

func v1(dictionary string, data int) []byte { return raw(1, dictionary, data) }

const sound = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"

// replaced replaces a part of the sound header.
func replaced(old, new string) []byte { return v1(strings.Replace(sound, old, new, 1), 24) }

func TestMalformedFilesAreRefusedWithWhatIsWrong(t *testing.T) {
	minor := v1(sound, 24)
	minor[7] = 1
	for name, c := range map[string]struct {
		file     []byte
		want     string
		sentinel error
	}{
		"nothing":                    {nil, "does not begin with", ErrMalformed},
		"another file":               {[]byte("PK\x03\x04 and so on"), "does not begin with", ErrMalformed},
		"only the magic":             {[]byte(magic), "does not begin with", ErrMalformed},
		"no length":                  {v1("", 0)[:8], "8 bytes are no header", ErrMalformed},
		"half a length":              {raw(2, "", 0)[:11], "11 bytes are no header", ErrMalformed},
		"version 0.0":                {raw(0, sound, 24), "version 0.0", ErrUnsupported},
		"version 1.1":                {minor, "version 1.1", ErrUnsupported},
		"version 4.0":                {raw(4, sound, 24), "version 4.0", ErrUnsupported},
		"header beyond the file":     {v1(sound, 0)[:60], "a header of 60 bytes in a file of 60", ErrMalformed},
		"header beyond 10,000 bytes": {v1(strings.Repeat(" ", 10_001), 0), "more than 10000", ErrMalformed},
		"header of 2^32-1 bytes": {append([]byte(magic), 2, 0, 255, 255, 255, 255), "more than 10000",
			ErrMalformed},
		"header that is not UTF-8":   {raw(3, "{'\xff': 1}", 0), "not UTF-8", ErrMalformed},
		"empty header":               {v1("", 0), "not a dictionary", ErrMalformed},
		"empty dictionary":           {v1("{}", 0), "not a dictionary", ErrMalformed},
		"dictionary that is cut off": {v1(sound[:40], 0), "no member", ErrMalformed},
		"something after":            {v1(sound+"x", 24), "no member", ErrMalformed},
		"two dictionaries":           {v1("{}{}", 0), "no member", ErrMalformed},
		"no descr":                   {replaced("'descr': '<f4', ", ""), "not a dictionary", ErrMalformed},
		"no order":                   {replaced("'fortran_order': False, ", ""), "not a dictionary", ErrMalformed},
		"no shape":                   {replaced("'shape': (2, 3), ", ""), "not a dictionary", ErrMalformed},
		"key twice": {replaced("'shape'", "'descr': '<f4', 'shape'"), `cannot have "descr"`,
			ErrMalformed},
		"another key":                {replaced("'shape'", "'x': 1, 'shape'"), "no member", ErrMalformed},
		"key without quotes":         {replaced("'descr'", "descr"), "no member", ErrMalformed},
		"quotes of two kinds":        {replaced("'descr'", `'descr"`), "no member", ErrMalformed},
		"escape":                     {replaced("<f4", `\x3cf4`), "no member", ErrMalformed},
		"no colon":                   {replaced("':", "'"), "no member", ErrMalformed},
		"no comma":                   {replaced("4',", "4'"), "not a dictionary", ErrMalformed},
		"two commas":                 {replaced(", }", ",, }"), "no member", ErrMalformed},
		"order of a number":          {replaced("False", "0"), "no member", ErrMalformed},
		"order in small letters":     {replaced("False", "false"), "no member", ErrMalformed},
		"shape of a number":          {replaced("(2, 3)", "6"), "no member", ErrMalformed},
		"shape that is no tuple":     {replaced("(2, 3)", "(6)"), `cannot have "shape": (6)`, ErrMalformed},
		"shape that is a list":       {replaced("(2, 3)", "[2, 3]"), `cannot have "shape"`, ErrMalformed},
		"shape without numbers":      {replaced("(2, 3)", "(,)"), `cannot have "shape"`, ErrMalformed},
		"shape without end":          {replaced("(2, 3), }", "(2, 3"), `cannot have "shape"`, ErrMalformed},
		"negative size":              {replaced("(2, 3)", "(2, -3)"), `cannot have "shape"`, ErrMalformed},
		"two negative sizes":         {replaced("(2, 3)", "(-2, -3)"), `cannot have "shape"`, ErrMalformed},
		"fraction":                   {replaced("(2, 3)", "(2.0, 3)"), `cannot have "shape"`, ErrMalformed},
		"size with a zero before it": {replaced("(2, 3)", "(02, 3)"), `cannot have "shape"`, ErrMalformed},
		"size of 2^64":               {replaced("(2, 3)", "(18446744073709551616,)"), "a size of", ErrMalformed},
		"overflow":                   {replaced("(2, 3)", "(4294967296, 4294967296)"), "more than 2^63", ErrMalformed},
		"overflow with a zero": {
			replaced("(2, 3)", "(0, 4294967296, 4294967296)"), "more than 2^63", ErrMalformed,
		},
		"overflow by the type":        {replaced("(2, 3)", "(4611686018427387904,)"), "more than 2^63", ErrMalformed},
		"too few bytes":               {v1(sound, 23), "23 bytes for shape [2 3] of F32, which has 24", ErrMalformed},
		"too many bytes":              {v1(sound, 25), "25 bytes for shape [2 3] of F32, which has 24", ErrMalformed},
		"unknown type":                {replaced("<f4", "<f16"), `type "<f16"`, ErrUnsupported},
		"type without order of bytes": {replaced("<f4", "f4"), `type "f4"`, ErrUnsupported},
		"Python 2's integers":         {replaced("(2, 3)", "(2L, 3L)"), `cannot have "shape"`, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(c.file)
			require.ErrorIs(t, err, c.sentinel)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestArraysThatXNNPACKCannotBeGivenSayHowToSaveThem(t *testing.T) {
	for name, want := range map[string]string{
		"fortran": "numpy.ascontiguousarray(a)", "big": "a.astype('<f4')", "text": "a.astype('<f4')",
		"fields": "save each field as an array of its own",
	} {
		b, err := os.ReadFile("testdata/refused/" + name + ".npy")
		require.NoError(t, err)
		_, err = Read(b)
		require.ErrorIs(t, err, ErrUnsupported, name)
		require.ErrorContains(t, err, want)
	}
}

func TestUnusualFilesOfTheFormatAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		file  []byte
		dtype safetensors.Dtype
		shape []int
	}{
		"no comma after the last entry": {replaced("3), }", "3)}"), safetensors.F32, []int{2, 3}},
		"no spaces": {v1("{'descr':'|u1','fortran_order':False,'shape':(3,)}", 3), safetensors.U8,
			[]int{3}},
		"other quotes": {v1(strings.ReplaceAll(sound, "'", `"`), 24), safetensors.F32, []int{2, 3}},
		"another order of keys": {v1("{'shape': (2,), 'fortran_order': False, 'descr': '|b1'}", 2), safetensors.Bool,
			[]int{2}},
		"comma in the tuple": {replaced("(2, 3)", "(2, 3,)"), safetensors.F32, []int{2, 3}},
		"Fortran order of one dimension": {v1("{'descr': '<c8', 'fortran_order': True, 'shape': (2,)}", 16),
			safetensors.C64, []int{2}},
		"header that is not a whole block": {v1("{'descr': '<f2', 'fortran_order': False, 'shape': ()}", 2),
			safetensors.F16,
			[]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Read(c.file)
			require.NoError(t, err)
			require.Equal(t, c.dtype, a.Dtype)
			require.Equal(t, c.shape, a.Shape)
		})
	}
}

func golden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/reference/kernel.npy")
	require.NoError(t, err)
	return b
}

func TestAFileCutOffAnywhereIsRefused(t *testing.T) {
	good := golden(t)
	_, err := Read(good)
	require.NoError(t, err)
	for n := range good {
		_, err := Read(good[:n])
		require.ErrorIs(t, err, ErrMalformed, "%d of %d bytes", n, len(good))
	}
}

func TestADamagedHeaderIsRefusedOrReadWithinTheFile(t *testing.T) {
	good := golden(t)
	for i := range 128 {
		for flip := range 256 {
			bad := bytes.Clone(good)
			bad[i] ^= byte(flip)
			check(t, bad)
		}
	}
}

// check reads a file, which may be refused, and sees that its array is what follows the header.
func check(t testing.TB, b []byte) {
	t.Helper()
	a, err := Read(b)
	if err != nil {
		return
	}
	require.True(t, bytes.HasSuffix(b, a.Data))
	elements := 1
	for _, n := range a.Shape {
		elements *= n
	}
	require.Len(t, a.Data, elements*a.Dtype.Bits()/8)
}

// FuzzParse reads any bytes as a file.
func FuzzParse(f *testing.F) {
	f.Add(golden(f))
	f.Add(raw(2, sound, 24))
	f.Add(raw(3, "{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': ()}", 4))
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

// FuzzHeader does the same with the bytes after the header's length, which so is always right.
func FuzzHeader(f *testing.F) {
	f.Add(byte(1), sound, uint16(24))
	f.Add(byte(3), "{'shape': (0, 18446744073709551615,), 'descr': \"|u1\", 'fortran_order': False}", uint16(0))
	f.Fuzz(func(t *testing.T, version byte, header string, data uint16) {
		check(t, raw(version%4, header, int(data)))
	})
}
