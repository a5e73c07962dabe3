package format

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// in reads of bytes.
func in(file []byte) func([]byte, uint64) error {
	return func(b []byte, offset uint64) error {
		_, err := io.ReadFull(io.NewSectionReader(bytes.NewReader(file), int64(offset), int64(len(b))), b)
		return err
	}
}

func TestANoteIsFoundBetweenPayloadsAndIndex(t *testing.T) {
	payloads := []byte("payloads")
	file := append(bytes.Clone(payloads), EncodeNote([]byte("of a model"))...)
	text, at, err := DecodeNote(8, uint64(len(file)), in(file))
	require.NoError(t, err)
	require.Equal(t, "of a model", string(text))
	require.EqualValues(t, 8, at)
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
		text, at, err := DecodeNote(c.payloads, uint64(len(file)), in(changed))
		require.NoError(t, err, name)
		require.Empty(t, text, name)
		require.EqualValues(t, len(file), at, name)
	}
	broken := errors.New("broken")
	_, _, err = DecodeNote(8, uint64(len(file)), func([]byte, uint64) error { return broken })
	require.ErrorIs(t, err, broken)
}

func FuzzDecodeNote(f *testing.F) {
	f.Add(uint64(0), EncodeNote([]byte("text")))
	f.Fuzz(func(t *testing.T, payloads uint64, file []byte) {
		text, at, err := DecodeNote(payloads, uint64(len(file)), in(file))
		require.NoError(t, err)
		if len(text) > 0 {
			require.Equal(t, file[at:], EncodeNote(text))
			require.GreaterOrEqual(t, at, payloads)
		}
	})
}
