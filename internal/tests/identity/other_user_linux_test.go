//go:build cgo

package identity

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

const nobody = 65534

// asNobody runs a test in a process of another user with some rights, in a directory that this user may read.
func asNobody(t *testing.T, dir, test string, rights []uintptr, env ...string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(dir, "test")
	if _, err := os.Stat(program); err != nil {
		content, err := os.ReadFile(self)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(program, content, 0o755))
		require.NoError(t, os.Chmod(program, 0o755))
	}
	cmd := exec.Command(program, "-test.run=^"+test+"$", "-test.count=1", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, harness.EnvDir+"="+dir, "TMPDIR="+dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
		AmbientCaps: rights}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skip("another user cannot run the test here: ", err)
	}
	require.NoError(t, err, "%s with %v:\n%s", test, env, out)
	require.Contains(t, string(out), "--- PASS: "+test, "%s with %v ran nothing", test, env)
}

// immutable does what chattr +i does, until the end of the test.
func immutable(t *testing.T, path string) {
	t.Helper()
	const flag = 0x10 // FS_IMMUTABLE_FL (linux/fs.h)
	set := func(flags int) error {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	require.NoError(t, f.Close())
	if err == nil {
		err = set(flags | flag)
	}
	if err != nil {
		t.Skip("files cannot be made immutable here: ", err)
	}
	t.Cleanup(func() { require.NoError(t, set(flags)) })
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(path, &fs))
	if fs.Type != unix.EXT4_SUPER_MAGIC {
		t.Skip("not on ext4")
	}
}

// Root deploys a model with its cache, and a service reads them as another user: in a process of its own, which is this
// test with envDir.
func TestAServiceOfAnotherUserReadsNothingOfAModelThatWasJustDeployed(t *testing.T) {
	const name, envBelieved = "TestAServiceOfAnotherUserReadsNothingOfAModelThatWasJustDeployed", "XPWC_TEST_BELIEVED"
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		require.Equal(t, nobody, os.Geteuid())
		want := harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1))
		model, cache := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "model.xpwc")
		s := startWith(t, model, cache, &xpwc.Options{ReadOnly: true})
		if os.Getenv(envBelieved) != "" {
			s.believed(t, want)
		}
		require.Equal(t, os.Getenv(envBelieved) == "", s.digests > 0)
		require.Zero(t, s.stats.Misses)
		require.Equal(t, want, s.answer)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process of another user")
	}
	testkit.SkipWithRace(t)
	dir, err := os.MkdirTemp("", "xpwc-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	model, cache := packedModel(t, dir, 1)
	for _, path := range []string{model, cache} {
		require.NoError(t, os.Chmod(path, 0o644))
	}
	testkit.Settled(t, model)
	startWith(t, model, cache, nil) // its times have changed
	t.Run("unless somebody may be writing to it", func(t *testing.T) { asNobody(t, dir, name, nil) })
	t.Run("if it may ask who writes", func(t *testing.T) {
		asNobody(t, dir, name, []uintptr{unix.CAP_LEASE}, envBelieved+"=1")
	})
	t.Run("if nobody can write", func(t *testing.T) {
		immutable(t, model)
		testkit.Settled(t, model)
		startWith(t, model, cache, nil)
		asNobody(t, dir, name, nil, envBelieved+"=1")
	})
}
