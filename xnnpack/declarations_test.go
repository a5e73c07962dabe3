package xnnpack_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A host that was written for another XNNPACK finds its operators in the header of make env.
func TestEveryNodeOfExecuTorchsXNNPACKIsDeclared(t *testing.T) {
	require.ElementsMatch(t, exportedNodes(t, "executorch", "libexecutorch_backend_xnnpack.so"), declaredNodes(t))
}

// LiteRT-LM's library lacks what is deprecated, and is newer: a node that only it has would be missing in the header.
func TestEveryNodeOfLiteRTLMsXNNPACKIsDeclared(t *testing.T) {
	require.Subset(t, declaredNodes(t), exportedNodes(t, "litert-lm", "liblitert-lm.so"))
}

// declaredNodes returns the functions xnn_define_* of the header for libraries without one.
func declaredNodes(t *testing.T) (names []string) {
	t.Helper()
	header, err := os.ReadFile(filepath.Join("..", "third_party", "executorch-xnnpack", "include", "xnnpack.h"))
	require.NoError(t, err)
	for _, match := range regexp.MustCompile(`\b(xnn_define_\w+)\(`).FindAllSubmatch(header, -1) {
		names = append(names, string(match[1]))
	}
	return names
}

// exportedNodes returns the functions xnn_define_* of a library in third_party/, without two of XNNPACK's inside, which
// its own header does not declare.
func exportedNodes(t *testing.T, project, file string) (names []string) {
	t.Helper()
	for _, s := range dynamicSymbols(t, project, file) {
		if strings.HasPrefix(s.Name, "xnn_define_") && s.Section != elf.SHN_UNDEF &&
			!slices.Contains([]string{"xnn_define_pack_lh", "xnn_define_unary_elementwise_lut_in_place"}, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

func dynamicSymbols(t *testing.T, project, file string) []elf.Symbol {
	t.Helper()
	library, err := elf.Open(filepath.Join("..", "third_party", project, "lib", file))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(project + " was not fetched")
	}
	require.NoError(t, err)
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	require.NoError(t, err)
	return symbols
}

// LimitCPU writes to cpuinfo's features by their places in the header.
func TestTheCPUFeaturesOfEachLibraryAreAllDeclared(t *testing.T) {
	header, err := os.ReadFile(filepath.Join("..", "third_party", "executorch-xnnpack", "include", "cpuinfo.h"))
	require.NoError(t, err)
	_, members, _ := strings.Cut(string(header), "struct cpuinfo_x86_isa {")
	members, _, _ = strings.Cut(members, "};")
	declared := 0
	for _, line := range regexp.MustCompile(`\bbool [^;]+;`).FindAllString(members, -1) {
		declared += strings.Count(line, ",") + 1
	}
	for _, library := range []struct {
		project, file string
		features      int
	}{
		{"executorch", "libexecutorch_threadpool.so", declared - 1}, // without amx_fp8
		{"litert-lm", "liblitert-lm.so", declared},
	} {
		for _, s := range dynamicSymbols(t, library.project, library.file) {
			if s.Name == "cpuinfo_isa" && runtime.GOARCH == "amd64" {
				require.EqualValues(t, library.features, s.Size, library.file)
			}
		}
	}
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
