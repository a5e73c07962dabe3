package digest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// One type, whatever package shows it.
var _ = []digest.Digest{xpwc.Digest{}, cachefile.Digest{}, packing.Digest{}, format.Digest{}}

func TestADigestIsTheXXH3OfTheBytes(t *testing.T) {
	// What xxHash's xxhsum -H2 prints for an empty file.
	const nothing = "99aa06d3014798d86001c324468d497f"
	require.Equal(t, nothing, digest.Of(nil).String())
	var h digest.Hash
	require.Equal(t, nothing, h.Sum().String())
	for _, part := range []string{"packed", "", " weights"} {
		n, err := h.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, digest.Of([]byte("packed weights")), h.Sum())
}

func TestADigestIsReadAsItIsWritten(t *testing.T) {
	d := digest.Of([]byte("a"))
	read, err := digest.Parse(d.String())
	require.NoError(t, err)
	require.Equal(t, d, read)
	text, err := json.Marshal(map[digest.Digest]digest.Digest{d: d})
	require.NoError(t, err)
	require.Equal(t, `{"`+d.String()+`":"`+d.String()+`"}`, string(text))
	var decoded map[digest.Digest]digest.Digest
	require.NoError(t, json.Unmarshal(text, &decoded))
	require.Equal(t, map[digest.Digest]digest.Digest{d: d}, decoded)
	for _, s := range []string{"", "ab", strings.Repeat("g", 32), strings.Repeat("a", 31), strings.Repeat("a", 34)} {
		_, err := digest.Parse(s)
		require.ErrorContains(t, err, "32 hexadecimal digits", s)
	}
}
