package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACPUHasAWholeNameAndAShortOne(t *testing.T) {
	for short, name := range map[string]string{"a53": "cortex-a53", "X1": "cortex-x1", "n1": "neoverse-n1",
		"dotprod": "dotprod", "cortex-x4": "cortex-x4"} {
		c, err := Arm64Named(short)
		require.NoError(t, err)
		require.Equal(t, name, c.Name)
	}
	_, err := Arm64Named("a99")
	require.ErrorContains(t, err, `"a99"`)
	require.ErrorContains(t, err, "cortex-a76")
	for _, name := range []string{"sme", "c1-ultra"} {
		_, err := Arm64Named(name)
		require.ErrorContains(t, err, "SME")
	}
}

func TestEachCoreHasOneName(t *testing.T) {
	for _, c := range arm64CPUs {
		if c.MIDR != unlisted {
			require.Equal(t, c.Name, coreName(c.MIDR))
		}
	}
	for _, name := range Phones {
		_, err := Arm64Named(name)
		require.NoError(t, err)
	}
	require.Empty(t, coreName(unlisted))
	require.Empty(t, coreName(0x610f0220), "a core of Apple's")
}

func TestTheCoresOfAPhoneAreThoseOfItsCPUInfo(t *testing.T) {
	const text = "processor\t: 0\nBogoMIPS\t: 38.40\nFeatures\t: fp asimd\nCPU implementer\t: 0x51\n" +
		"CPU architecture: 8\nCPU variant\t: 0xd\nCPU part\t: 0x805\nCPU revision\t: 14\n\n" +
		"processor\t: 7\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd44\nCPU revision\t: 0\n\n" +
		"Hardware\t: Qualcomm Technologies, Inc SM8350\n"
	require.Equal(t, []processor{{0, 0x51d0805e}, {7, 0x4110d440}}, parseCPUInfo(text))
	require.Equal(t, "cortex-x1", coreName(0x4110d440))
}

func FuzzCPUInfo(f *testing.F) {
	f.Add("processor\t: 0\nCPU part\t: 0xd03\n")
	f.Add("CPU part : 1\nprocessor : -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range parseCPUInfo(text) {
			require.GreaterOrEqual(t, p.number, 0)
		}
	})
}
