package output_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/output"
)

func TestWhatIsWrittenInPiecesIsWhatWasGiven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f, err := os.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		defer f.Close()
		p := output.NewPieces(f)
		var want []byte
		for range 12 {
			switch r.IntN(4) {
			case 0: // what was written last is left out
				want = want[:r.IntN(len(want)+1)]
				require.NoError(t, p.MoveTo(int64(len(want))))
			case 1: // what is not written is zeros
				require.NoError(t, p.Flush())
				require.NoError(t, f.Truncate(int64(len(want))))
				want = append(want, make([]byte, r.IntN(5000))...)
				require.NoError(t, p.MoveTo(int64(len(want))))
			default:
				b := make([]byte, r.IntN(10<<r.IntN(20)+1))
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				n, err := p.Write(b)
				require.NoError(t, err)
				require.Equal(t, len(b), n)
				want = append(want, b...)
			}
		}
		require.NoError(t, p.Flush())
		require.NoError(t, f.Truncate(int64(len(want))))
		got, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		require.True(t, string(want) == string(got))
	}
}
