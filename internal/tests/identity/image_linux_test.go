//go:build cgo

package identity

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
)

// An imageKind is a file system that a program makes of a directory, with the times that it is given or the files' own.
type imageKind struct {
	name, command string
	arguments     func(image, dir, seconds string) []string
	times         map[string]string
	set           func(image, name, seconds string) []string // a command that sets the time in the image, or nil
	overlaid      bool                                       // the lower layer of an overlayfs
}

const sameUUID = "00000000-0000-0000-0000-000000000001"

var (
	fixedTimes = map[string]string{"the epoch": "0", "a time that is always the same": "1230768000"}
	ownTimes   = map[string]string{"a time of modification that a program set": ""}
)

func erofsArguments(image, dir, seconds string) []string {
	if seconds == "" {
		return []string{"-Eforce-inode-extended", "-U", sameUUID, image, dir}
	}
	return []string{"-T", seconds, "-U", sameUUID, image, dir}
}

var imageKinds = []imageKind{
	{name: "squashfs", command: "mksquashfs", times: fixedTimes, arguments: func(image, dir, seconds string) []string {
		return []string{dir, image, "-noappend", "-all-time", seconds, "-mkfs-time", "0"}
	}},
	{name: "erofs", command: "mkfs.erofs", times: fixedTimes, arguments: erofsArguments},
	{name: "erofs", command: "mkfs.erofs", times: ownTimes, arguments: erofsArguments},
	{name: "erofs under overlayfs", command: "mkfs.erofs", times: fixedTimes, arguments: erofsArguments,
		overlaid: true},
	{name: "erofs under overlayfs", command: "mkfs.erofs", times: ownTimes, arguments: erofsArguments,
		overlaid: true},
	{name: "ext4", command: "mkfs.ext4", times: fixedTimes, arguments: func(image, dir, _ string) []string {
		return []string{"-q", "-d", dir, "-U", sameUUID, image, "8M"}
	}, set: func(image, name, seconds string) []string {
		return []string{"debugfs", "-w", "-R", "set_inode_field /" + name + " ctime @" + seconds, image}
	}},
}

// image makes an image with the one file.
func (k imageKind) image(t *testing.T, seconds, name string, content []byte) string {
	t.Helper()
	program := testkit.Program(t, k.command)
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	moment := time.Unix(1_500_000_000, 123_456_789)
	require.NoError(t, os.Chtimes(path, moment, moment))
	out, err := exec.Command(program, k.arguments(image, dir, seconds)...).CombinedOutput()
	require.NoError(t, err, "%s: %s", program, out)
	if k.set != nil {
		set := k.set(image, name, seconds)
		out, err := exec.Command(set[0], set[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", set, out)
	}
	return image
}

// mount mounts an image at dir, until the returned function is called. Where this process may not mount, or the system
// does not know the file system, the test is skipped.
func (k imageKind) mount(t *testing.T, image, dir string) (unmount func()) {
	t.Helper()
	lower := dir
	if k.overlaid {
		lower = t.TempDir()
	}
	out, err := exec.Command("mount", "-o", "loop", image, lower).CombinedOutput()
	for _, forbidden := range []string{"failed to setup loop device", "ermission denied", "must be superuser",
		"unknown filesystem type"} {
		if strings.Contains(string(out), forbidden) {
			t.Skipf("this process may not mount a file: %s", out)
		}
	}
	require.NoError(t, err, "%s", out)
	below := detached(t, lower)
	if !k.overlaid {
		return below
	}
	err = unix.Mount("overlay", dir, "overlay", 0, "lowerdir="+lower+",upperdir="+t.TempDir()+",workdir="+t.TempDir())
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
		t.Skipf("this process may not mount an overlayfs: %v", err)
	}
	require.NoError(t, err)
	above := detached(t, dir)
	return func() {
		above()
		below()
	}
}

// detached returns what unmounts dir, which the end of the test does too.
func detached(t *testing.T, dir string) func() {
	unmount := sync.OnceFunc(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	t.Cleanup(unmount)
	return unmount
}

// A machine whose models come in images is given another one: inode, size and all times of the model are as before.
func TestAModelInANewImageIsDistinguished(t *testing.T) {
	for _, k := range imageKinds {
		for kind, seconds := range k.times {
			// No comma: it would be in the paths of directories, and separates options of overlayfs.
			t.Run(k.name+" with "+kind, func(t *testing.T) {
				dir, path := t.TempDir(), harness.Path(t)
				var states []unix.Stat_t
				for version := range 2 {
					tensors := harness.ThreeLayers.Weights(uint32(version))
					file := harness.Safetensors(t, tensors)
					unmount := k.mount(t, k.image(t, seconds, "model.safetensors", file), dir)
					model := filepath.Join(dir, "model.safetensors")
					var state unix.Stat_t
					require.NoError(t, unix.Stat(model, &state))
					states = append(states, state)

					want := harness.ThreeLayers.Plain(t, tensors)
					for range 2 {
						data, err := safetensors.Open(model)
						require.NoError(t, err)
						tensor, err := data.Tensor(harness.ThreeLayers.Layers[0][0])
						require.NoError(t, err)
						c := harness.OpenCache(t, path, nil)
						require.Equal(t, want, harness.ThreeLayers.Run(t, c, data))
						require.Empty(t, tensor.Identity.Stamp)
						require.NoError(t, c.Close())
						require.NoError(t, data.Close())
					}
					unmount()
				}
				a, b := states[0], states[1]
				require.Equal(t, []int64{int64(a.Ino), a.Size, a.Mtim.Nano(), a.Ctim.Nano()},
					[]int64{int64(b.Ino), b.Size, b.Mtim.Nano(), b.Ctim.Nano()},
					"the images distinguish the files: nothing was tested")
			})
		}
	}
}
