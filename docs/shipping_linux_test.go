//go:build linux && cgo

package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// An image is what a stage of the Containerfile makes.
type image struct {
	root       string
	env        []string
	user       string
	entrypoint []string
}

// images executes the Containerfile's instructions without a container engine.
func images(t *testing.T, dist string) map[string]*image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "Containerfile"))
	require.NoError(t, err)
	stages := map[string]*image{}
	var current *image
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		instruction, rest, _ := strings.Cut(line, " ")
		switch instruction {
		case "", "#":
		case "FROM":
			name, ok := strings.CutPrefix(rest, "scratch AS ")
			require.True(t, ok, line)
			current = &image{root: t.TempDir()}
			require.NoError(t, os.Chmod(current.root, 0o755))
			stages[name] = current
		case "COPY":
			src, dst, two := strings.Cut(rest, " ")
			require.True(t, two, line)
			out := exec.Command("cp", "-a", filepath.Join(dist, src)+"/.", filepath.Join(current.root, dst))
			require.NoError(t, saying(out))
		case "ENV":
			current.env = append(current.env, rest)
		case "USER":
			current.user = rest
		case "ENTRYPOINT":
			require.NoError(t, json.Unmarshal([]byte(rest), &current.entrypoint), line)
		default:
			require.Fail(t, "this instruction is not known here", line)
		}
	}
	return stages
}

// alone runs what follows $1 with the system's /proc, /sys and /dev below $1.
const alone = `for dir in proc sys dev; do mkdir -p "$1/$dir" && mount --rbind "/$dir" "$1/$dir" || exit; done &&
	shift && exec "$@"`

// command returns what runs a command in the image, as its user and with no environment but its own.
func (i *image) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	chroot, err := exec.LookPath("chroot") // there may be none on the image's PATH
	require.NoError(t, err)
	enter := []string{"--mount", "sh", "-c", alone, "sh", i.root, "env", "-i"}
	user := []string{chroot, "--userspec=" + i.user + ":" + i.user, i.root}
	return exec.Command("unshare", slices.Concat(enter, i.env, user, args)...)
}

// entry returns what runs the entry point with arguments.
func (i *image) entry(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return i.command(t, slices.Concat(i.entrypoint, args)...)
}

// give puts a model into a directory of the image that belongs to its user.
func (i *image) give(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile("third_party/models/selfie_segmentation.tflite")
	require.NoError(t, err, "run make third_party")
	dir := filepath.Join(i.root, "models")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "selfie.tflite"), content, 0o644))
	require.NoError(t, saying(exec.Command("chown", i.user, dir)))
}

// requirePacks has the tool pack the model and run it.
func (i *image) requirePacks(t *testing.T, tool string) {
	t.Helper()
	i.give(t)
	require.NoError(t, saying(i.command(t, tool, "pack", "/models/selfie.tflite", "-o", "/models/selfie.xpwc")))
	require.NoError(t, saying(i.command(t, tool, "run", "/models/selfie.tflite", "--cache", "/models/selfie.xpwc")))
}

// A distribution is a directory with everything that is given away.
type distribution string

// distributed builds the distribution for this machine, once.
var distributed = sync.OnceValues(func() (distribution, error) {
	dir := filepath.Join(scratch, "dist")
	return distribution(dir), saying(exec.Command("scripts/with-xnnpack", "scripts/dist", dir))
})

// file returns the path of the one file with such a name.
func (d distribution) file(t *testing.T, pattern string) string {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(string(d), pattern))
	require.NoError(t, err)
	require.Len(t, matches, 1)
	return matches[0]
}

// requireWheel skips where there is no wheel.
func (d distribution) requireWheel(t *testing.T) {
	t.Helper()
	if wheels, _ := filepath.Glob(filepath.Join(string(d), "*.whl")); len(wheels) == 0 {
		t.Skip("the XNNPACK needs a libc of its own, which no wheel has")
	}
}

// emptyRoot returns an image without a file, for root.
func emptyRoot(t *testing.T) *image {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	return &image{root: root, user: "0"}
}

// installDebian installs the package of Debian.
func (i *image) installDebian(t *testing.T, d distribution) {
	t.Helper()
	require.NoError(t, saying(exec.Command("sh", "-c", `mkdir -p "$0/var/lib/dpkg/updates" "$0/var/lib/dpkg/info" &&
		: >"$0/var/lib/dpkg/status" && dpkg --root="$0" --force-depends --force-architecture -i "$1"`, i.root,
		d.file(t, "*.deb"))))
}

// installTarball unpacks the tarball in /opt.
func (i *image) installTarball(t *testing.T, d distribution) {
	t.Helper()
	opt := filepath.Join(i.root, "opt")
	require.NoError(t, os.Mkdir(opt, 0o755))
	require.NoError(t, saying(exec.Command("tar", "-xzf", d.file(t, "*.tar.gz"), "-C", opt, "--strip-components=1")))
}

// installWheel unpacks the wheel in /opt, as pip does for a platform.
func (i *image) installWheel(t *testing.T, d distribution) {
	t.Helper()
	wheel := d.file(t, "*.whl")
	platform := strings.TrimSuffix(wheel[strings.LastIndex(wheel, "manylinux"):], ".whl")
	require.NoError(t, saying(exec.Command("python3", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
		"--only-binary=:all:", "--platform", platform, "--target", filepath.Join(i.root, "opt"), wheel)))
}

// requireShippable skips where what is given away can neither be built nor installed.
func requireShippable(t *testing.T) {
	t.Helper()
	switch {
	case os.Getenv(testkit.Emulator) != "":
		t.Skip("the compilers are not emulated")
	case os.Geteuid() != 0:
		t.Skip("only root can change the root directory")
	}
	testkit.SkipIfShort(t)
	for _, program := range []string{"unshare", "chroot", "dpkg-deb", "python3"} {
		testkit.Program(t, program)
	}
}

// It builds everything that is given away, which takes more than ten seconds.
func TestWhatIsShippedRunsWhereThereIsNothingElse(t *testing.T) {
	requireShippable(t)
	dist, err := distributed()
	require.NoError(t, err)
	stages := images(t, string(dist))
	debian := emptyRoot(t)
	debian.installDebian(t, dist)

	t.Run("no path of this machine is in it", func(t *testing.T) {
		settings, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
		require.NoError(t, err)
		dir, err := os.Getwd()
		require.NoError(t, err)
		grep := []string{"-rlaF", "-e", dir}
		for _, path := range strings.Fields(string(settings)) {
			grep = append(grep, "-e", path+"/")
		}
		trees := []string{filepath.Join(string(dist), "images"), filepath.Join(debian.root, "usr")}
		search := exec.Command("grep", append(grep, trees...)...)
		out, _ := search.CombinedOutput()
		require.Empty(t, string(out))
		require.Equal(t, 1, search.ProcessState.ExitCode(), "nothing is found")
	})
	t.Run("the image of the tool", func(t *testing.T) {
		tool := stages["xpwc"]
		tool.requirePacks(t, tool.entrypoint[0])
		require.NoError(t, saying(tool.entry(t, "--version")))
	})
	t.Run("the image of the service", func(t *testing.T) {
		service := stages["service"]
		service.give(t)
		n := &node{t: t, work: t.TempDir()}
		args := []string{"-addr", "127.0.0.1:0", "-cache", "/models/selfie.xpwc", "-models", "/models", "selfie"}
		n.start(service.entry(t, args...)).stop(t)
		second := n.start(service.entry(t, args...))
		n.requireNothingPacked(second)
		second.stop(t)
	})
	t.Run("the package of Debian", func(t *testing.T) {
		out, err := exec.Command("dpkg-deb", "--contents", dist.file(t, "*.deb")).Output()
		require.NoError(t, err)
		for _, path := range []string{"bin/xpwc", "include/xpwc.h", "include/xpwc.hpp", "include/xpwc_reader.h",
			"lib/libxpwc.a", "lib/libxpwc.so", "lib/pkgconfig/xpwc.pc", "share/xpwc/reader/xpwc_reader.c",
			"share/man/man1/xpwc-pack.1", "share/doc/xpwc/LICENSE"} {
			require.Regexp(t, `(?m) root/root .* \./usr/`+regexp.QuoteMeta(path)+`( ->.*)?$`, string(out))
		}
		withSystem(t, debian, "usr/bin/xpwc")
		debian.requirePacks(t, "/usr/bin/xpwc")
	})
	t.Run("the tarball, in a directory that is not the one it was made for", func(t *testing.T) {
		if loaders, _ := filepath.Glob(filepath.Join(debian.root, "usr/libexec/xpwc/ld-linux*")); len(loaders) > 0 {
			t.Skip("the libc that this XNNPACK needs has a loader whose path is fixed")
		}
		opt := emptyRoot(t)
		opt.installTarball(t, dist)
		withSystem(t, opt, "opt/bin/xpwc")
		opt.requirePacks(t, "/opt/bin/xpwc")
	})
	t.Run("the wheel", func(t *testing.T) {
		dist.requireWheel(t)
		opt := emptyRoot(t)
		opt.installWheel(t, dist)
		withSystem(t, opt, "opt/bin/xpwc")
		opt.requirePacks(t, "/opt/bin/xpwc")
		out, err := opt.command(t, "/opt/bin/xpwc", "pack", "/models/selfie.tflite", "--for", "litert").CombinedOutput()
		require.Error(t, err, "the library is not installed")
		require.Regexp(t, `^xpwc: [^\n]*pip install litert-lm-api==[^\n]*\n$`, string(out))
		require.NotRegexp(t, `third_party|make `, string(out))
	})
	t.Run("the static tool", func(t *testing.T) {
		static := emptyRoot(t)
		copied := exec.Command("cp", dist.file(t, "xpwc-static-*"), filepath.Join(static.root, "xpwc"))
		require.NoError(t, saying(copied))
		static.give(t)
		require.NoError(t, saying(static.command(t, "/xpwc", "inspect", "/models/selfie.tflite")))
		out, err := static.command(t, "/xpwc", "pack", "/models/selfie.tflite").CombinedOutput()
		require.Error(t, err)
		require.NotRegexp(t, `third_party|make `, string(out))
	})
}

// It builds everything that is given away for arm64.
func TestWhatIsShippedForArm64RunsWhereThereIsNothingElse(t *testing.T) {
	requireShippable(t)
	const emulator, libraries = "qemu-aarch64-static", "/usr/aarch64-linux-gnu/lib"
	emulated := testkit.Program(t, emulator)
	testkit.Program(t, "aarch64-linux-gnu-gcc")
	if runtime.GOARCH == "arm64" || os.Getenv("XNNPACK") != "executorch" {
		t.Skip("it builds for another architecture, with the pinned ExecuTorch")
	}
	dist := distribution(filepath.Join(scratch, "arm64"))
	for _, args := range [][]string{{"--fetch"}, {"scripts/dist", string(dist)}} {
		build := exec.Command("scripts/with-xnnpack", args...)
		build.Env = append(os.Environ(), "ARCH=arm64")
		require.NoError(t, saying(build))
	}
	// requireRuns gives a program what it needs of a system for arm64, and the emulator.
	requireRuns := func(t *testing.T, i *image, dir string) {
		t.Helper()
		script := `mkdir -p "$0/lib" "$0/usr/bin" && cp "$3" "$0/usr/bin/" && cp "$2"/ld-linux-aarch64.so.1 "$0/lib/" &&
			for file in "$0$1"/bin/xpwc "$0$1"/libexec/xpwc/*; do third_party/needed-libraries "$file" "$2"; done |
			sort -u | xargs cp -t "$0/lib/"`
		require.NoError(t, saying(exec.Command("sh", "-c", script, i.root, dir, libraries, emulated)))
		i.env = append(i.env, "QEMU_CPU=cortex-a76", "QEMU_SET_ENV=LD_LIBRARY_PATH=/lib")
		i.give(t)
		tool := []string{"/usr/bin/" + emulator, dir + "/bin/xpwc"}
		require.NoError(t, saying(i.command(t, append(tool, "--version")...)))
		run := append(tool, "run", "/models/selfie.tflite", "--cache", "/models/selfie.xpwc")
		require.NoError(t, saying(i.command(t, run...)))
		require.NoError(t, saying(i.command(t, append(tool, "verify", "/models/selfie.xpwc")...)))
	}
	t.Run("the package of Debian", func(t *testing.T) {
		debian := emptyRoot(t)
		debian.installDebian(t, dist)
		requireRuns(t, debian, "/usr")
		depends, err := exec.Command("dpkg-deb", "--field", dist.file(t, "*.deb"), "Architecture", "Depends").Output()
		require.NoError(t, err)
		require.Regexp(t, `Architecture: arm64\nDepends: libc6 \(>= [0-9.]+\), libgcc-s1, libstdc\+\+6\n`,
			string(depends))
	})
	t.Run("the tarball", func(t *testing.T) {
		opt := emptyRoot(t)
		opt.installTarball(t, dist)
		requireRuns(t, opt, "/opt")
	})
	t.Run("the wheel", func(t *testing.T) {
		opt := emptyRoot(t)
		opt.installWheel(t, dist)
		requireRuns(t, opt, "/opt")
	})
	t.Run("the static tool", func(t *testing.T) {
		static := exec.Command(emulated, dist.file(t, "xpwc-static-*"), "inspect",
			"third_party/models/selfie_segmentation.tflite")
		require.NoError(t, saying(static))
	})
}

func TestAProgramOfAnotherModuleIsShippedWithoutThePathOfThisOne(t *testing.T) {
	if os.Getenv(testkit.Emulator) != "" {
		t.Skip("the compilers are not emulated")
	}
	dir, err := os.Getwd()
	require.NoError(t, err)
	module := t.TempDir()
	sums, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	requirements, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for name, content := range map[string]string{
		"go.mod": strings.Replace(string(requirements), "module xpwc", "module serving", 1) +
			"\nrequire xpwc v0.0.0\n\nreplace xpwc => " + dir + "\n",
		"go.sum":  string(sums),
		"main.go": "package main\n\nimport \"xpwc\"\n\nfunc main() { println(xpwc.Version) }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(module, name), []byte(content), 0o644))
	}
	ship := func(env string) (said, content string) {
		cmd := exec.Command(filepath.Join(dir, "scripts/ship"), "out", ".")
		cmd.Dir, cmd.Env = module, append(os.Environ(), env)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		program, err := os.ReadFile(filepath.Join(module, "out/bin/serving"))
		require.NoError(t, err)
		return string(out), string(program)
	}
	said, content := ship("GOWORK=off")
	require.Contains(t, said, "it does not after: go work init . "+dir)
	require.Contains(t, content, dir)
	cmd := exec.Command("go", "work", "init", ".", dir)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=")
	require.NoError(t, saying(cmd))
	said, content = ship("GOWORK=")
	require.Empty(t, said)
	require.NotContains(t, content, dir)
}

// withSystem gives a tree what a program in it needs of the system.
func withSystem(t *testing.T, i *image, program string) {
	t.Helper()
	require.NoError(t, saying(exec.Command("scripts/ship", "--system", i.root, filepath.Join(i.root, program))))
}

func TestTheImagesOfTheDocumentsCanBeBuilt(t *testing.T) {
	containerfile, err := os.ReadFile("scripts/Containerfile")
	require.NoError(t, err)
	header, err := os.ReadFile("capi/include/xpwc.h")
	require.NoError(t, err)
	version := regexp.MustCompile(`#define XPWC_VERSION "(.*)"`).FindSubmatch(header)[1]
	named := regexp.MustCompile(`(?:image: |--tag )registry\.example/([a-z]+):([0-9.]+)`)
	for _, document := range []string{guide, "docs/shipping.md", "scripts/Containerfile"} {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		matches := named.FindAllSubmatch(text, -1)
		require.NotEmpty(t, matches, document)
		images := strings.Count(string(text), "image: ")
		require.Equal(t, images, strings.Count(string(text), "image: registry.example/"), document)
		for _, m := range matches {
			require.Contains(t, string(containerfile), "FROM scratch AS "+string(m[1])+"\n", document)
			require.Equal(t, string(version), string(m[2]), document)
		}
	}
}
