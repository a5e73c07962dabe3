package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgressIsQuietInFiles(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, "packing")
	p.Update(1, 100)
	p.Finish()
	require.Empty(t, out.String())
}
