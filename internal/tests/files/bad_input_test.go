//go:build cgo && unix

package files

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/optable"
)

func TestLoadReportsTheReasonForAnError(t *testing.T) {
	c := harness.OpenCache(t, "", nil)
	s, err := c.NewSession(nil)
	require.NoError(t, err)
	_, err = s.Load("w")
	require.ErrorIs(t, err, xpwc.ErrNoDataMap)
	require.NoError(t, s.Close())

	s, err = c.NewSession(xpwc.MapOf(map[string][]byte{"w": make([]byte, 8), "empty": nil}))
	require.NoError(t, err)
	_, err = s.Load("v")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.ErrorContains(t, err, `"v"`)
	b, err := s.Load("empty")
	require.NoError(t, err)
	require.Empty(t, b)
	require.NoError(t, s.Finalize())
	_, err = s.Load("w")
	require.ErrorIs(t, err, xpwc.ErrFinalized)
	require.NoError(t, s.Close())
	_, err = s.Load("w")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	err = s.Finalize()
	require.ErrorIs(t, err, xpwc.ErrClosed)
}

func TestOpenRefusesForeignFilesAndLeavesThemAlone(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	garbage := bytes.Repeat([]byte("not a cache "), 1000)
	open := filepath.Join(dir, "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	link := filepath.Join(open, "link")
	require.NoError(t, os.Symlink(write("target", nil), link))
	circle := filepath.Join(dir, "circle")
	require.NoError(t, os.Symlink("circle", circle))
	shared := write("shared", nil)
	require.NoError(t, os.Chmod(shared, 0o666))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))

	for name, c := range map[string]struct {
		path string
		want error
	}{
		"a directory":              {dir, xpwc.ErrNotCache},
		"a file of garbage":        {write("garbage", garbage), xpwc.ErrNotCache},
		"a short file of garbage":  {write("short", garbage[:5]), xpwc.ErrNotCache},
		"a text":                   {write("text", []byte("{}\n")), xpwc.ErrNotCache},
		"a link others can change": {link, xpwc.ErrUnsafeFile},
		"a link to itself":         {circle, syscall.ELOOP},
		"a file others may write":  {shared, xpwc.ErrUnsafeFile},
		"a FIFO":                   {fifo, xpwc.ErrUnsafeFile},
		"a path below a file":      {filepath.Join(dir, "garbage", "x"), syscall.ENOTDIR},
		"a directory that is not":  {filepath.Join(dir, "none", "x"), os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			content := func() []byte {
				if name == "a FIFO" {
					return nil
				}
				b, _ := os.ReadFile(c.path)
				return b
			}
			original := content()
			_, err := xpwc.Open(c.path, nil)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, filepath.Base(filepath.Dir(c.path)))
			require.Equal(t, original, content())
		})
	}
	_, err := xpwc.Open(link, nil)
	require.ErrorContains(t, err, open+": its mode 0777 lets others write to it")
	piped := filepath.Join(dir, "piped")
	require.NoError(t, os.Symlink("fifo", piped))
	_, err = xpwc.Open(piped, &xpwc.Options{AllowUnsafeFile: true}) // which does not wait for a writer
	require.ErrorIs(t, err, xpwc.ErrUnsafeFile)
	c := harness.OpenCache(t, link, &xpwc.Options{AllowUnsafeFile: true})
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
}

func TestALinkThatOnlyThisUserCanChangeIsFollowed(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.MkdirAll(in("versions/v3"), 0o700))
	require.NoError(t, os.Symlink("versions/v3", in("current")))
	require.NoError(t, os.Symlink("current/model.xpwc", in("model.xpwc"))) // as in Kubernetes' volumes
	for i, path := range []string{"model.xpwc", "versions/v3/model.xpwc", "model.xpwc"} {
		c := harness.OpenCache(t, in(path), nil)
		harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
		require.NoError(t, c.Close())
		require.Equal(t, i > 0, c.Stats().Packed.Entries == 0, "one file, whichever way")
	}
	info, err := os.Lstat(in("versions/v3/model.xpwc"))
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
	for _, link := range []string{"current", "model.xpwc"} {
		info, err := os.Lstat(in(link))
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays")
	}
	require.NoError(t, os.Chmod(in("versions"), 0o777)) // has no link in it
	harness.OpenCache(t, in("model.xpwc"), nil)
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = xpwc.Open(in("model.xpwc"), nil)
	require.ErrorIs(t, err, xpwc.ErrUnsafeFile)
}

// damagedCopy packs a cache and damages its file.
func damagedCopy(t *testing.T, damage func([]byte) []byte) (path string, damaged []byte) {
	path = harness.Path(t)
	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	require.NoError(t, c.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	damaged = damage(content)
	require.NoError(t, os.WriteFile(path, damaged, 0o600))
	return path, damaged
}

func TestADamagedFileIsSetAsideAndRepacked(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"truncated in the payloads": func(b []byte) []byte { return b[:20_000] },
		"truncated by a byte":       func(b []byte) []byte { return b[:len(b)-1] },
		"truncated in the header":   func(b []byte) []byte { return b[:100] },
		"header damaged":            func(b []byte) []byte { b[20] ^= 1; return b },
		"index damaged":             func(b []byte) []byte { b[len(b)-500] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			tensors := harness.ThreeLayers.Weights(1)
			want := harness.ThreeLayers.Plain(t, tensors)
			path, damaged := damagedCopy(t, damage)

			_, err := xpwc.Open(path, &xpwc.Options{Strict: true})
			require.ErrorIs(t, err, xpwc.ErrDamaged)

			readOnly := harness.OpenCache(t, path, &xpwc.Options{ReadOnly: true})
			require.Equal(t, want, harness.ThreeLayers.Run(t, readOnly, xpwc.MapOf(tensors)))
			require.ErrorIs(t, readOnly.Stats().Damaged, xpwc.ErrDamaged)
			require.NoError(t, readOnly.Close())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(damaged, content), "reading changes nothing")

			c := harness.OpenCache(t, path, nil)
			require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
			require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
			require.NoError(t, c.Close())
			aside, err := os.ReadFile(path + ".damaged")
			require.NoError(t, err)
			require.True(t, bytes.Equal(damaged, aside))

			c = harness.OpenCache(t, path, &xpwc.Options{Strict: true})
			require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
			require.Zero(t, c.Stats().Misses)
		})
	}
}

// The file of a process that was killed while it packed first: a header, and nothing committed.
func TestAFileWithoutACommitIsReused(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"zeros":            func([]byte) []byte { return make([]byte, 4096) },
		"header and space": func(b []byte) []byte { clear(b[512:]); return append(b, make([]byte, 100_000)...) },
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := damagedCopy(t, damage)
			c := harness.OpenCache(t, path, &xpwc.Options{Strict: true})
			harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
			require.NoError(t, c.Close())
			require.Equal(t, 3, c.Stats().Entries)
			require.NoFileExists(t, path+".damaged")
		})
	}
}

func TestReadOnlyServesEntriesAndPacksTheRestPrivately(t *testing.T) {
	path, tensors := harness.Path(t), harness.ThreeLayers.Weights(1)
	c := harness.OpenCache(t, path, nil)
	harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors))
	require.NoError(t, c.Close())
	original, err := os.ReadFile(path)
	require.NoError(t, err)

	extra := harness.Chain{Width: 96, Layers: append(harness.ThreeLayers.Layers[:3:3], [2]string{"w4", ""})}
	tensors = extra.Weights(1)
	c = harness.OpenCache(t, path, &xpwc.Options{ReadOnly: true})
	require.Equal(t, extra.Plain(t, tensors), extra.Run(t, c, xpwc.MapOf(tensors)))
	s := c.Stats()
	require.EqualValues(t, 3, s.Hits.Entries)
	require.EqualValues(t, 1, s.Private[xpwc.ReasonReadOnly].Entries)
	require.Zero(t, s.Packed.Entries)
	require.NoError(t, c.Close())
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(original, rewritten))
}

// Root may write everywhere, so the process of the test becomes nobody.
func TestAnUnwritableDirectoryOrFileIsNoError(t *testing.T) {
	if os.Getenv(harness.EnvDir) == "" {
		dir, err := os.MkdirTemp("", "xpwc-unwritable-")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		c := harness.OpenCache(t, filepath.Join(dir, "old"), nil)
		harness.ThreeLayers.Run(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
		require.NoError(t, c.Close())
		require.NoError(t, os.Chmod(filepath.Join(dir, "old"), 0o444))
		require.NoError(t, os.Chmod(dir, 0o555))
		harness.InProcess(t, "TestAnUnwritableDirectoryOrFileIsNoError", harness.EnvDir+"="+dir)
		return
	}
	dir := os.Getenv(harness.EnvDir)
	if os.Getuid() == 0 {
		require.NoError(t, syscall.Setuid(65534))
	}
	tensors := harness.ThreeLayers.Weights(1)
	c := harness.OpenCache(t, filepath.Join(dir, "new"), nil)
	require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
	s := c.Stats()
	require.EqualValues(t, 3, s.Private[xpwc.ReasonReadOnly].Entries)
	require.ErrorIs(t, s.LastError, os.ErrPermission)
	require.NoError(t, c.Close())

	extra := harness.Chain{Width: 96, Layers: append(harness.ThreeLayers.Layers[:3:3], [2]string{"w4", ""})}
	tensors = extra.Weights(1)
	c = harness.OpenCache(t, filepath.Join(dir, "old"), nil)
	require.Equal(t, extra.Plain(t, tensors), extra.Run(t, c, xpwc.MapOf(tensors)))
	s = c.Stats()
	require.EqualValues(t, 3, s.Hits.Entries)
	require.EqualValues(t, 1, s.Private[xpwc.ReasonReadOnly].Entries)
}

// XNNPACK packs the bias of operators with dynamically quantised input without naming it. A host that does not know,
// and loads it as any other, gets the right weights all the same.
func TestAnUnnamedBiasIsComputedBeforePacking(t *testing.T) {
	op := harness.Case(t, "fully-connected-qd8-f32-qc8w")
	plain, err := op.Run(nil, nil, nil)
	require.NoError(t, err)
	path := harness.Path(t)
	for start := range 2 {
		c := harness.OpenCache(t, path, nil)
		weights := map[string][]byte{}
		s, err := c.NewSession(xpwc.MapOf(weights))
		require.NoError(t, err)
		output, err := op.Run(s, func(w optable.Weight) ([]byte, error) {
			weights[w.Name] = w.Content
			return s.Load(w.Name)
		}, s.Finalize)
		require.NoError(t, err)
		require.Equal(t, plain, output)
		require.NoError(t, s.Close())
		require.EqualValues(t, start, c.Stats().Reused.Entries)
		require.NoError(t, c.Close())
	}
}

// asked counts how often it is asked for a name.
type asked struct {
	xpwc.DataMap
	times map[string]int
}

func (a asked) Tensor(name string) (xpwc.Tensor, error) {
	a.times[name]++
	return a.DataMap.Tensor(name)
}

func TestANameIsRequestedOnceEvenIfUnknown(t *testing.T) {
	c := harness.OpenCache(t, "", nil)
	data := asked{xpwc.MapOf(map[string][]byte{"w": make([]byte, 64)}), map[string]int{}}
	s, err := c.NewSession(data)
	require.NoError(t, err)
	for range 2 {
		_, err := s.Load("w")
		require.NoError(t, err)
		_, err = s.Load("unknown")
		require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	}
	require.Equal(t, map[string]int{"w": 1, "unknown": 1}, data.times)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}
