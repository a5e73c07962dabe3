package bench

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

const status = "Name:\txpwc\nVmPeak:\t  999 kB\nVmHWM:\t   70 kB\nVmRSS:\t   62 kB\nRssAnon:\t      12 kB\n" +
	"RssFile:\t      50 kB\nThreads:\t3\n"
const rollup = "00400000-7ffd000 ---p 00000000 00:00 0  [rollup]\nRss:  62 kB\nPss_Dirty:   3 kB\nPss:   40 kB\n" +
	"Private_Clean:   8 kB\nPrivate_Dirty:   13 kB\n"

func TestMemoryFiguresAreThoseOfTheKernel(t *testing.T) {
	m, err := parseMemory([]byte(status), []byte(rollup))
	require.NoError(t, err)
	want := memory{
		RSS: 62 << 10, RSSAnon: 12 << 10, RSSFile: 50 << 10, PrivateDirty: 13 << 10, PSS: 40 << 10, Peak: 70 << 10,
	}
	require.Equal(t, want, m)
}

func TestMissingAndStrangeFiguresAreErrors(t *testing.T) {
	for _, text := range []string{"", "VmRSS", "VmRSS:", "VmRSS: kB", "VmRSS: 1 MB", "VmRSS: -1 kB",
		"VmRSS: 1 kB more", "VmRSS: x kB", "VmRSS: 9223372036854775807 kB", " VmRSS: 1 kB"} {
		_, err := kilobytes([]byte(text), "VmRSS")
		require.ErrorContains(t, err, "VmRSS", text)
	}
	_, err := parseMemory([]byte(status), nil)
	require.ErrorContains(t, err, "Private_Dirty")
}

func TestThisProcessHasMemory(t *testing.T) {
	m, err := measureMemory()
	if runtime.GOOS != "linux" {
		require.ErrorIs(t, err, errNoMemoryFigures)
		return
	}
	require.NoError(t, err)
	require.Positive(t, m.RSSAnon)
	require.GreaterOrEqual(t, m.RSS, m.RSSAnon+m.RSSFile)
	require.Positive(t, m.Peak)
	require.Positive(t, m.PSS)
}

func FuzzParseMemory(f *testing.F) {
	f.Add([]byte(status), []byte(rollup))
	f.Add([]byte("VmRSS: 1 kB"), []byte(nil))
	f.Add([]byte("RssAnon:\t99999999999999999999 kB\n"), []byte("Private_Dirty: 1 kB"))
	f.Fuzz(func(t *testing.T, status, rollup []byte) {
		m, err := parseMemory(status, rollup)
		if err != nil {
			require.Zero(t, m)
			return
		}
		for _, n := range []int64{m.RSS, m.RSSAnon, m.RSSFile, m.PrivateDirty, m.PSS, m.Peak} {
			require.GreaterOrEqual(t, n, int64(0))
			require.Zero(t, n%1024)
		}
	})
}
