package reader

import (
	"bytes"
	"debug/macho"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// libcOfIOS is all that the reader calls besides XNNPACK.
var libcOfIOS = strings.Fields(`
	___error ___memcpy_chk _bsearch _bzero _calloc _close _free _fstat _geteuid _malloc _memcmp _memcpy
	_memset_pattern16 _mmap _munmap _open _posix_memalign _pread _qsort _realloc _snprintf _strcat
	_strcmp _strcpy _strerror _strlen _strncmp _strspn _sysconf`)

func TestTheReaderForIOSNeedsOnlyXNNPACKAndLibc(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(root, "third_party", "zig")); err != nil {
		t.Skip("Zig was not fetched: make dist-ios")
	}
	dir := filepath.Join(t.TempDir(), "ios")
	build := exec.Command("scripts/with-xnnpack", "scripts/build-reader", dir)
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.FileExists(t, filepath.Join(dir, "xpwc_reader.h"))

	archive, err := os.ReadFile(filepath.Join(dir, "libxpwc_reader.a"))
	require.NoError(t, err)
	object := bytes.Index(archive, []byte{0xcf, 0xfa, 0xed, 0xfe})
	require.Positive(t, object)
	f, err := macho.NewFile(bytes.NewReader(archive[object:]))
	require.NoError(t, err)
	require.Equal(t, macho.CpuArm64, f.Cpu)
	const external, undefined = 0x01, 0 // of N_TYPE in <mach-o/nlist.h>
	var strange []string
	for _, s := range f.Symtab.Syms {
		allowed := strings.HasPrefix(s.Name, "_xnn_") || slices.Contains(libcOfIOS, s.Name)
		if s.Type&external != 0 && s.Sect == undefined && !allowed {
			strange = append(strange, s.Name)
		}
	}
	require.Empty(t, strange)
	defines := func(s macho.Symbol) bool { return s.Sect != undefined && s.Name == "_xpwc_reader_close" }
	require.True(t, slices.ContainsFunc(f.Symtab.Syms, defines))
}
