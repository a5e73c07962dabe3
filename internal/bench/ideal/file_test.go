package ideal

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPayloadsAreAlignedAndFound(t *testing.T) {
	payloads := [][]byte{[]byte("a"), {}, bytes.Repeat([]byte("b"), alignment), bytes.Repeat([]byte("c"), alignment+1)}
	var file bytes.Buffer
	require.NoError(t, write(&file, payloads))
	places, err := parse(file.Bytes())
	require.NoError(t, err)
	require.Len(t, places, len(payloads))
	for i, p := range places {
		require.Equal(t, payloads[i], file.Bytes()[p.Offset:][:p.Size:p.Size])
	}
}

func FuzzParse(f *testing.F) {
	var file bytes.Buffer
	require.NoError(f, write(&file, [][]byte{[]byte("payload"), []byte("another")}))
	f.Add(file.Bytes())
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		places, err := parse(data)
		if err != nil {
			require.ErrorIs(t, err, ErrNotRecording)
			return
		}
		for _, p := range places {
			_ = data[p.Offset : p.Offset+p.Size]
		}
	})
}
