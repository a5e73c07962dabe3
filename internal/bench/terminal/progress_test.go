package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only terminals get a bar, and quick work no line at all.
func TestProgressIsQuietInFiles(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, "packing")
	for i := range int64(101) {
		p.Update(i, 100)
	}
	p.Finish()
	require.Empty(t, out.String())
	p.start = p.start.Add(-2 * patience)
	for i := range int64(101) {
		p.Update(i<<20, 100<<20)
	}
	require.Equal(t, []string{"packing: 25 % of 100.0 MiB", "packing: 50 % of 100.0 MiB", "packing: 75 % of 100.0 MiB",
		"packing: 100 % of 100.0 MiB"}, strings.Split(strings.TrimSpace(out.String()), "\n"))
	p.Update(0, 0) // an empty piece of work
}
