//go:build cgo

package zoo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
)

// FuzzChangedModel runs models of the zoo in which some bytes were changed: each runs or is an error, and none ends the
// process. Three bytes of changes are a position, in parts of the file, and what is added to the byte there.
func FuzzChangedModel(f *testing.F) {
	var models []string
	for _, format := range formats {
		paths, err := filepath.Glob(filepath.Join("testdata", format.name, "*."+format.name))
		require.NoError(f, err)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && info.Size() < 1<<16 {
				f.Add(uint16(len(models)), []byte{0xff, 0xff, 0x80, 0x80, 0, 1})
				models = append(models, path)
			}
		}
	}
	f.Fuzz(func(t *testing.T, model uint16, changes []byte) {
		path := models[int(model)%len(models)]
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for ; len(changes) >= 3; changes = changes[3:] {
			b[(int(changes[0])<<8|int(changes[1]))*len(b)>>16] += changes[2]
		}
		changed := filepath.Join(t.TempDir(), "changed"+strings.ToLower(filepath.Ext(path)))
		require.NoError(t, os.WriteFile(changed, b, 0o600))
		m, err := modelfile.File{Path: changed}.Open()
		if err != nil {
			return
		}
		defer func() { require.NoError(t, m.Close()) }()
		size := 0
		for _, v := range append(m.Inputs(), m.Outputs()...) {
			n := 1
			for _, d := range v.Shape {
				n *= d
			}
			size += n
		}
		if size > 1<<16 { // it may be any, and only takes long
			return
		}
		e, err := instance.New(m, execution.PackedIn("", nil), 1)
		if err != nil {
			return
		}
		if execution.FillKnuth(e) == nil {
			_, _ = e.Infer()
		}
		require.NoError(t, e.Close())
	})
}
