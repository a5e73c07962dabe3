package osdisk

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/store"
	"xpwc/internal/tests/thindisk"
)

// A mapping and its descriptor share the kernel's record of write errors. Another descriptor has its own.
func TestAFailedWriteBackIsReportedOnceByAMappingAndItsDescriptor(t *testing.T) {
	for name, sync := range map[string]func(store.File, store.Mapping) error{
		"mapping":    func(_ store.File, m store.Mapping) error { return m.Sync(0, len(m.Data())) },
		"descriptor": func(f store.File, _ store.Mapping) error { return f.Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			dir, ballast := thindisk.Mount(t)
			path := filepath.Join(dir, "file")
			f, err := Files{Insecure: true}.Create(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			const size = 1 << 20
			require.NoError(t, f.Allocate(0, size))
			m, err := f.Map(0, size, true)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Unmap()) }()
			witness, err := Files{Insecure: true}.Open(path, false)
			require.NoError(t, err)
			defer func() { require.NoError(t, witness.Close()) }()
			require.NoError(t, m.Sync(0, 0), "an empty part")
			thindisk.Sync(t, dir)
			thindisk.FillUp(t, ballast)

			for i := range m.Data() {
				m.Data()[i] = 1
			}
			require.Error(t, sync(f, m))
			require.NoError(t, m.Sync(0, size))
			require.NoError(t, f.Flush())
			require.Error(t, witness.(store.FailureTeller).Failed())
		})
	}
}
