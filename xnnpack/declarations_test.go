package xnnpack_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			require.True(t, called[name], "%s declares %s), which nothing calls", header, name)
		}
	}
}
