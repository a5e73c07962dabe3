package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATargetThatCannotBePackedForIsRefusedByName(t *testing.T) {
	dir, model := t.TempDir(), faceModel(t)
	for target, message := range map[string]string{
		"arm64:sme":      "SME",
		"arm64:c1-ultra": "SME",
		"arm64:a99":      "cortex-a76",
		"riscv64:max":    "the only architecture is arm64",
		"avx2":           "the only architecture is arm64",
	} {
		require.Contains(t, printed(t, dir, exitUsage, "pack", model, "--target", target, "-o", "f"), message)
	}
	require.Contains(t, printed(t, dir, exitUsage, "pack", model, "--for", "litert", "--target", "arm64", "-o", "f"),
		"3 are named; give --name-by-content", "LiteRT's library does not run on the fourth")
	require.Contains(t, printed(t, dir, exitUsage, "pull", "r/m:v1", "-o", "f", "--target", "arm64:a76,arm64:x4"),
		"one CPU")
	require.NoFileExists(t, filepath.Join(dir, "f"))
}

func TestWhatPackingForArm64LacksIsNamed(t *testing.T) {
	dir, model := t.TempDir(), faceModel(t)
	line := []string{"pack", model, "--target", "arm64:a76", "-o", "f"}
	command := func(environment ...string) string {
		cmd := exec.Command(tool, line...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		return string(out)
	}
	require.Contains(t, command("PATH="+dir), "apt-get install qemu-user-static")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "qemu-aarch64"), nil, 0o700))
	missing := filepath.Join(dir, "missing")
	require.Contains(t, command("PATH="+dir, "XPWC_ARM64="+missing), "that XPWC_ARM64 names: "+missing)
	built := filepath.Join(filepath.Dir(tool), "arm64", "xpwc")
	if _, err := os.Stat(built); err == nil {
		t.Skip("another test has built the tool of arm64")
	}
	installed := filepath.Join(filepath.Dir(filepath.Dir(tool)), "libexec", "xpwc", "arm64", "bin", "xpwc")
	require.Contains(t, command("PATH="+dir, "XPWC_ARM64="), installed+" (unpack the wheel or the tarball")
	require.Contains(t, command("PATH="+dir, "XPWC_ARM64="+tool, "QEMU_LD_PREFIX="+dir), "libstdc++6-arm64-cross")
	require.Contains(t, command("PATH="+dir, "XPWC_ARM64="+tool, "QEMU_LD_PREFIX=/", "TMPDIR="+missing),
		"the emulated machine's files in the directory for temporary files (TMPDIR): "+missing)

	line = append(line, "--for", "litert")
	require.Contains(t, command("PATH="+dir, "XPWC_ARM64="), installed, "the library is installed next to the tool")
	require.Contains(t, command("PATH="+dir, "XPWC_ARM64="+tool), "--target='"+filepath.Dir(filepath.Dir(tool))+"' ")
	require.NoFileExists(t, filepath.Join(dir, "f"))
}
