package litert_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/models/litert"
)

func TestTheEnginesNamesAreReadAsTheyAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a_1_2.litertlm")
	require.NoError(t, os.WriteFile(path, make([]byte, 300), 0o600))
	require.NoError(t, os.Chtimes(path, time.Unix(1795867454, 999), time.Unix(1795867454, 999)))
	info, err := os.Stat(path)
	require.NoError(t, err)
	for role, name := range map[string]string{
		"tf_lite_prefill_decode": "a_1_2.litertlm_1795867454_300.xnnpack_cache",
		"tf_lite_vision_encoder": "a_1_2.litertlm_1795867454_300.vision_encoder.xnnpack_cache",
	} {
		c, ok := litert.EngineCacheOf(info, role)
		require.True(t, ok)
		require.Equal(t, name, c.String())
		parsed, ok := litert.ParseEngineCache(filepath.Join("dir", name))
		require.True(t, ok)
		require.Equal(t, name, parsed.String())
		require.Equal(t, c.Part, parsed.Part)
	}
	_, ok := litert.EngineCacheOf(info, "tf_lite_embedder")
	require.False(t, ok)
	for _, name := range []string{"", "model.litert_cache", "model_1.xnnpack_cache", "_1_2.xnnpack_cache",
		"m_1_99999999999999999999.xnnpack_cache", "m_1_2.xnnpack_cache.new"} {
		_, ok := litert.ParseEngineCache(name)
		require.False(t, ok, name)
	}
}

func TestNearAWholeSecondTheEngineMayLookForTwoNames(t *testing.T) {
	cache := func(changed time.Time) litert.EngineCache {
		return litert.EngineCache{Bundle: "m", Time: changed, Size: 2, Part: "mtp_drafter"}
	}
	second, previous := "m_1000_2.mtp_drafter.xnnpack_cache", "m_999_2.mtp_drafter.xnnpack_cache"
	require.Equal(t, []string{second, previous}, cache(time.Unix(1000, 0)).Names())
	require.Equal(t, []string{second, previous}, cache(time.Unix(1000, 1e6)).Names())
	require.Equal(t, []string{previous, second}, cache(time.Unix(999, 999999999)).Names())
	require.Equal(t, []string{second}, cache(time.Unix(1000, 5e8)).Names())
}
