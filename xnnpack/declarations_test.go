package xnnpack_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A host that was written for another XNNPACK finds its operators in the header of make env.
func TestEveryNodeOfExecuTorchsXNNPACKIsDeclared(t *testing.T) {
	third := filepath.Join("..", "third_party")
	header, err := os.ReadFile(filepath.Join(third, "executorch-xnnpack", "include", "xnnpack.h"))
	require.NoError(t, err)
	library, err := elf.Open(filepath.Join(third, "executorch", "lib", "libexecutorch_backend_xnnpack.so"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("ExecuTorch was not fetched")
	}
	require.NoError(t, err)
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	require.NoError(t, err)
	var exported, declared []string
	for _, s := range symbols {
		// The last two are of XNNPACK's inside: its own header does not declare them.
		if strings.HasPrefix(s.Name, "xnn_define_") && s.Section != elf.SHN_UNDEF &&
			!slices.Contains([]string{"xnn_define_pack_lh", "xnn_define_unary_elementwise_lut_in_place"}, s.Name) {
			exported = append(exported, s.Name)
		}
	}
	for _, match := range regexp.MustCompile(`\b(xnn_define_\w+)\(`).FindAllSubmatch(header, -1) {
		declared = append(declared, string(match[1]))
	}
	require.ElementsMatch(t, exported, declared)
}

// ExecuTorch's libraries come without headers. What this project declares of them is checked by nothing but its use.
func TestWhatIsDeclaredOfExecuTorchsXNNPACKIsCalled(t *testing.T) {
	const root = ".."
	headers, err := filepath.Glob(filepath.Join(root, "third_party", "executorch-xnnpack", "include", "*.h"))
	require.NoError(t, err)
	require.NotEmpty(t, headers)
	var sources strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"third_party", "bin", "lib", "demo"}, d.Name()) {
			return filepath.SkipDir
		}
		if !slices.Contains([]string{".go", ".c", ".h", ".cc", ".cpp", ".hpp"}, filepath.Ext(path)) {
			return nil
		}
		source, err := os.ReadFile(path)
		sources.Write(source)
		return err
	}))
	call := regexp.MustCompile(`\b(xnn|pthreadpool|cpuinfo)_\w+\(`)
	called := map[string]bool{}
	for _, name := range call.FindAllString(sources.String(), -1) {
		called[name] = true
	}
	for _, header := range headers {
		declared, err := os.ReadFile(header)
		require.NoError(t, err)
		for _, name := range call.FindAllString(string(declared), -1) {
			if strings.HasPrefix(name, "xnn_define_") {
				continue // all are there, for hosts
			}
			require.True(t, called[name], "%s declares %s), which nothing calls", header, name)
		}
	}
}
