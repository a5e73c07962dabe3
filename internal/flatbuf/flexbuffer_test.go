package flatbuf

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// flexOptions is a map in a FlexBuffer, as flatbuffers' builder for Python writes it:
// {"a": -3, "b": 0.5, "c": true, "d": "text", "e": 300}.
var flexOptions = []byte{'a', 0, 'b', 0, 'c', 0, 'd', 0, 4, 't', 'e', 'x', 't', 0, 'e', 0}

func flexFile(t testing.TB) []byte {
	t.Helper()
	b := bytes.Clone(flexOptions)
	// The keys' vector: its size, and offsets of a byte each.
	keys := len(b) + 1
	b = append(b, 5)
	for _, place := range []int{0, 2, 4, 6, 14} {
		b = append(b, byte(len(b)-place))
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	word := func(n uint32) { b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24)) }
	word(uint32(len(b) - keys))
	word(1)
	word(5)
	root := len(b)
	word(0xfffffffd)
	word(0x3f000000)
	word(1)
	word(uint32(len(b) - 9))
	word(300)
	b = append(b, flexInt<<2|2, flexFloat<<2|2, flexBool<<2, 5<<2, flexUint<<2|2)
	return append(b, byte(len(b)-root), flexMap<<2|2, 1)
}

func TestNumbersOfAFlexBufferAreThoseOfItsMap(t *testing.T) {
	numbers, ok := FlexNumbers(flexFile(t))
	require.True(t, ok)
	require.Equal(t, map[string]float64{"a": -3, "b": 0.5, "c": 1, "e": 300}, numbers)
}

// FuzzFlexNumbers reads any bytes as options.
func FuzzFlexNumbers(f *testing.F) {
	b := flexFile(f)
	for n := range b {
		f.Add(b[n:])
		bad := bytes.Clone(b)
		bad[n] = 0xff
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if numbers, ok := FlexNumbers(b); ok && len(numbers) > len(b) {
			t.Fatal(len(numbers), "numbers in", len(b), "bytes")
		}
	})
}
