package format

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANoteIsFoundBetweenPayloadsAndIndex(t *testing.T) {
	payloads := []byte("payloads")
	file := append(bytes.Clone(payloads), EncodeNote([]byte("of a model"))...)
	text, start, err := DecodeNote(bytes.NewReader(file), 8, uint64(len(file)))
	require.NoError(t, err)
	require.Equal(t, "of a model", string(text))
	require.EqualValues(t, 8, start)
	require.Empty(t, EncodeNote(nil))

	for name, c := range map[string]struct {
		payloads uint64
		change   func(file []byte)
	}{
		"payloads over it":   {9, func([]byte) {}},
		"payloads beyond":    {uint64(len(file)) + 1, func([]byte) {}},
		"another magic":      {8, func(file []byte) { file[len(file)-1] ^= 1 }},
		"no length":          {8, func(file []byte) { file[len(file)-noteEnd] = 0 }},
		"too great a length": {8, func(file []byte) { file[len(file)-noteEnd+3] = 0xff }},
	} {
		changed := bytes.Clone(file)
		c.change(changed)
		text, start, err := DecodeNote(bytes.NewReader(changed), c.payloads, uint64(len(file)))
		require.NoError(t, err, name)
		require.Empty(t, text, name)
		require.EqualValues(t, len(file), start, name)
	}
	_, _, err = DecodeNote(bytes.NewReader(nil), 8, uint64(len(file)))
	require.ErrorIs(t, err, io.EOF)
}

func FuzzDecodeNote(f *testing.F) {
	f.Add(uint64(0), EncodeNote([]byte("text")))
	f.Fuzz(func(t *testing.T, payloads uint64, file []byte) {
		text, start, err := DecodeNote(bytes.NewReader(file), payloads, uint64(len(file)))
		require.NoError(t, err)
		if len(text) > 0 {
			require.Equal(t, file[start:], EncodeNote(text))
			require.GreaterOrEqual(t, start, payloads)
		}
	})
}
