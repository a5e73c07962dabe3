package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/registrytest"
)

// writers are all commands that write a cache file, out.xpwc; the first creates of them need no existing file.
func writers(t *testing.T, ref string) (commands [][]string, creates int) {
	model := testModel(t, selfie)
	return [][]string{
		{"pack", model, "-o", "out.xpwc"},
		{"convert", "model.xpwc", "--to", "native", "-o", "out.xpwc"},
		{"pull", ref, "-o", "out.xpwc"},
		{"run", model, "--cache", "out.xpwc"},
		{"compact", "out.xpwc"},
		{"prune", "out.xpwc", "--max-size", "100KiB"},
	}, 4
}

func TestEveryCommandThatWritesFollowsTheSameLinks(t *testing.T) {
	s := registrytest.Start(t)
	work, file := packed(t, face, selfie)
	printed(t, work, 0, "push", s.Ref("face:v1"), file)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	commands, creates := writers(t, s.Ref("face:v1"))
	for i, command := range commands {
		t.Run(command[0], func(t *testing.T) {
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			require.NoError(t, os.WriteFile(in("model.xpwc"), content, 0o600))
			require.NoError(t, os.MkdirAll(in("versions/v3"), 0o700))
			require.NoError(t, os.Symlink("versions/v3", in("current")))
			require.NoError(t, os.Symlink("current/model.xpwc", in("out.xpwc")))
			target := in("versions/v3/model.xpwc")
			if i < creates {
				printed(t, dir, 0, command...)
				printed(t, dir, 0, "verify", "versions/v3/model.xpwc")
			}
			require.NoError(t, os.WriteFile(target, content, 0o600))
			printed(t, dir, 0, command...)
			printed(t, dir, 0, "verify", "versions/v3/model.xpwc")
			links := func() {
				for _, name := range []string{"current", "out.xpwc"} {
					info, err := os.Lstat(in(name))
					require.NoError(t, err)
					require.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays")
				}
				requireNoStage(t, dir)
				requireNoStage(t, in("versions/v3"))
			}
			links()

			refused := func(reason string) {
				require.NoError(t, os.WriteFile(target, content, 0o600))
				original := contents(t, in("versions"))
				got := printed(t, dir, 1, command...)
				require.Contains(t, got, reason)
				require.Contains(t, got, "a symbolic link that others can change is not followed")
				requireSame(t, original, contents(t, in("versions")))
				links()
			}
			require.NoError(t, os.Chmod(dir, 0o777))
			refused("its mode 0777 lets others write to it")
			require.NoError(t, os.Chmod(dir, 0o700))
			if os.Geteuid() == 0 {
				require.NoError(t, os.Lchown(in("current"), 65534, 65534))
				refused("it belongs to user 65534")
			}
		})
	}
}

func TestOutputsOfAModelFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	require.NoError(t, os.Mkdir(out, 0o700))
	target, link := filepath.Join(dir, "target"), filepath.Join(out, "output_0.f32")
	require.NoError(t, os.WriteFile(target, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(target, link))
	printed(t, dir, 0, "run", faceModel(t), "--output-dir", "out")
	content, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
	require.NotZero(t, info.Size())
}
