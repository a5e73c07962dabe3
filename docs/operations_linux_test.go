//go:build linux && cgo

package docs

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"xpwc"
	"xpwc/internal/tests/registrytest"
	"xpwc/internal/tests/testkit"
	"xpwc/metrics"
	"xpwc/models/executorch"
	"xpwc/registry"
)

// A node has the directories of the guide beneath one of a test, and a registry in place of registry.example.
type node struct {
	t        *testing.T
	root     string // has /srv/models and so on
	work     string // where commands run
	registry *registrytest.Server
	units    map[string]unit
	service  *service // under systemd, or nil
}

// A service is a running process of the program that serves the model.
type service struct {
	cmd *exec.Cmd
	url string
}

func newNode(t *testing.T) *node {
	t.Helper()
	for _, program := range []string{"curl", "unshare", "setpriv", "systemctl", "systemd-analyze"} {
		testkit.Program(t, program)
	}
	t.Setenv("REGISTRY_STORAGE_DELETE_ENABLED", "true") // as the guide demands
	root := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755)) // other users look into it
	n := &node{t: t, root: root, work: filepath.Join(root, "work"), registry: registrytest.Start(t),
		units: map[string]unit{}}
	for _, dir := range []string{"work", "usr/local/bin", "srv/models", "models", "etc/systemd/system", "etc/xpwc"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	n.copy(tool(t), "usr/local/bin/xpwc", 0o755)
	build := exec.Command("go", "build", "-C", "examples", "-o", n.path("/usr/local/bin/service"), "./service")
	require.NoError(t, saying(build))
	models := os.Getenv("XPWC_MODELS")
	if models == "" {
		models = filepath.Join("third_party", "models")
	}
	n.copy(filepath.Join(models, "pose_landmark_lite.tflite"), "work/pose.tflite", 0o644)
	n.copy(filepath.Join(models, "pose_landmark_full.tflite"), "work/pose-v4.tflite", 0o644)
	t.Setenv("PATH", n.path("/usr/local/bin")+":"+os.Getenv("PATH"))
	t.Cleanup(n.stop)
	return n
}

func (n *node) copy(src, dst string, mode os.FileMode) {
	n.t.Helper()
	content, err := os.ReadFile(src)
	require.NoError(n.t, err, "run make third_party")
	require.NoError(n.t, os.WriteFile(filepath.Join(n.root, dst), content, mode))
}

// path returns where a path of the guide is.
func (n *node) path(name string) string { return filepath.Join(n.root, name) }

var (
	paths  = regexp.MustCompile(`(^|[\s="'(,\[])(/usr/local/bin|/srv/models|/etc/systemd|/etc/xpwc|/models)\b`)
	listen = regexp.MustCompile(`(-addr",? "?|-addr, "|-addr )(localhost)?:8080`)
)

// rewrite returns a text of the guide with this node's paths, registry and addresses.
func (n *node) rewrite(text string) string {
	text = paths.ReplaceAllString(text, "${1}"+n.root+"${2}")
	text = strings.ReplaceAll(text, "https://registry.example", "http://"+n.registry.Host)
	text = strings.ReplaceAll(text, "registry.example", n.registry.Host)
	text = listen.ReplaceAllString(text, "${1}localhost:0")
	text = strings.ReplaceAll(text, "systemctl ", "systemctl --root="+n.root+" ") // there is no systemd to ask
	if n.service != nil {
		text = strings.ReplaceAll(text, "http://localhost:8080", n.service.url)
	}
	return text
}

// A unit is one of systemd's: its settings by name.
type unit map[string]string

// write puts a unit at the path in its first line.
func (n *node) write(s snippet) {
	n.t.Helper()
	first, _, _ := strings.Cut(s.text, "\n")
	path, named := strings.CutPrefix(first, "# /etc/systemd/system/")
	require.True(n.t, named, "%s: the first line must name the unit's file", s.place)
	text := n.rewrite(s.text)
	u := unit{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			u[name] = value
		}
	}
	n.units[path] = u
	require.NoError(n.t, os.WriteFile(n.path("/etc/systemd/system/"+path), []byte(text), 0o644))
}

// boot has systemd check the units, and does what it would do with them: it runs the one that pulls, then the program.
func (n *node) boot() {
	n.t.Helper()
	args := []string{"verify", "--man=no"}
	for name := range n.units {
		args = append(args, n.path("/etc/systemd/system/"+name))
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	require.NoError(n.t, err, string(out))
	require.Empty(n.t, string(out))
	require.FileExists(n.t, n.path("/etc/systemd/system/pose-weights.timer"))
	require.NotEmpty(n.t, n.units["pose-weights.timer"]["OnCalendar"])
	for _, enabled := range []string{"timers.target.wants/pose-weights.timer", "multi-user.target.wants/pose.service"} {
		_, err := os.Lstat(n.path("/etc/systemd/system/" + enabled))
		require.NoError(n.t, err, "it is enabled")
	}
	pull := n.units["pose-weights.service"]
	require.Equal(n.t, "oneshot", pull["Type"])
	require.Equal(n.t, "0022", pull["UMask"])
	original := n.inode("/srv/models/v3/pose.xpwc")
	for _, command := range []string{pull["ExecStart"], pull["ExecStartPost"]} {
		cmd := exec.Command("sh", "-c", "umask 0022; exec "+command)
		cmd.Env = []string{pull["Environment"]} // systemd gives it no more of note
		require.NoError(n.t, saying(cmd))
	}
	require.Equal(n.t, original, n.inode("/srv/models/v3/pose.xpwc"), "it is up to date, and stays")
	n.restart()
}

func (n *node) inode(path string) uint64 {
	n.t.Helper()
	info, err := os.Stat(n.path(path))
	require.NoError(n.t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

// restart starts the program again as its unit does. Nothing is packed.
func (n *node) restart() {
	n.t.Helper()
	n.stop()
	u := n.units["pose.service"]
	cmd := exec.Command(strings.Fields(u["ExecStart"])[0], strings.Fields(u["ExecStart"])[1:]...)
	require.Equal(n.t, "yes", u["DynamicUser"])
	if os.Geteuid() == 0 {
		const somebody = 64000
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	}
	n.service = n.start(cmd)
	n.requireNothingPacked(n.service)
}

// start starts the program, and returns when it serves.
func (n *node) start(cmd *exec.Cmd) *service {
	n.t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Dir = n.work
	stdout, err := cmd.StdoutPipe()
	require.NoError(n.t, err)
	require.NoError(n.t, cmd.Start())
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "serving on "); ok {
			return &service{cmd, url}
		}
	}
	_ = cmd.Wait()
	require.FailNow(n.t, "it does not serve", "%s\n%s", cmd, &stderr)
	return nil
}

func (s *service) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, s.cmd.Wait())
}

func (n *node) stop() {
	if n.service != nil {
		n.service.stop(n.t)
		n.service = nil
	}
}

func (n *node) requireNothingPacked(s *service) {
	n.t.Helper()
	response, err := http.Get(s.url + "/metrics")
	require.NoError(n.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(n.t, err)
	require.Regexp(n.t, `xpwc_load_duration_seconds_count\{outcome="mapped",.*\} 1`, string(body))
	require.Regexp(n.t, `xpwc_load_duration_seconds_count\{outcome="packed",.*\} 0`, string(body))
	require.NotRegexp(n.t, `xpwc_private_packed_entries_total\{.*\} [1-9]`, string(body))
}

// A deployment is of Kubernetes, as far as the guide uses it.
type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
	Volumes        []struct {
		Name     string
		HostPath struct{ Path, Type string } `yaml:"hostPath"`
	}
}

type container struct {
	Name, Image     string
	Command         []string
	SecurityContext struct {
		RunAsUser              int  `yaml:"runAsUser"`
		ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
	Resources struct {
		Requests, Limits map[string]string
	}
}

// mounted runs the command after $3 where $1 is mounted at $2.
const mounted = `mount --bind "$1" "$2" && mount -o remount,bind,"$3" "$2" && shift 3 && exec "$@"`

// in returns the command of a container, with its mount and as its user, as far as this one may do so.
func (p pod) in(t *testing.T, c container) *exec.Cmd {
	t.Helper()
	require.Len(t, c.VolumeMounts, 1)
	require.Len(t, p.Volumes, 1)
	mount := c.VolumeMounts[0]
	require.Equal(t, p.Volumes[0].Name, mount.Name)
	args := []string{"--mount", "--map-root-user"}
	user := strconv.Itoa(c.SecurityContext.RunAsUser)
	wrapper := []string{}
	if os.Geteuid() == 0 {
		args = args[:1]
		wrapper = []string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups"}
	}
	access := "rw"
	if mount.ReadOnly {
		access = "ro"
	}
	args = append(args, "sh", "-c", mounted, "sh", p.Volumes[0].HostPath.Path, mount.MountPath, access)
	return exec.Command("unshare", slices.Concat(args, wrapper, c.Command)...)
}

// deploy does what Kubernetes would do on this node for each pod of a deployment.
func (n *node) deploy(s snippet) {
	n.t.Helper()
	var d deployment
	decoder := yaml.NewDecoder(strings.NewReader(n.rewrite(s.text)))
	decoder.KnownFields(true)
	require.NoError(n.t, decoder.Decode(&d))
	require.Equal(n.t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
	require.Positive(n.t, d.Spec.Replicas)
	p := d.Spec.Template.Spec
	require.NoError(n.t, os.Remove(n.path("/srv/models/v3/pose.xpwc")), "another node, which has only the model")
	var file uint64
	for i := range d.Spec.Replicas {
		for _, c := range p.InitContainers {
			require.NoError(n.t, saying(p.in(n.t, c)))
		}
		if i == 0 {
			file = n.inode("/srv/models/v3/pose.xpwc")
		}
		require.Equal(n.t, file, n.inode("/srv/models/v3/pose.xpwc"), "the pods share one file")
		for _, c := range p.Containers {
			program := n.start(p.in(n.t, c))
			n.requireNothingPacked(program)
			program.stop(n.t)
		}
	}
}

// run runs commands, which must succeed.
func (n *node) run(s snippet) (printed string) {
	n.t.Helper()
	var out, stderr bytes.Buffer
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", n.rewrite(s.text))
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.work, &out, &stderr
	require.NoError(n.t, cmd.Run(), "%s\n%s", s.place, &stderr)
	return out.String()
}

const guide = "docs/operations.md"

func guideText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	return string(text)
}

func TestTheOperationsGuideWorksFromItsBeginningToItsEnd(t *testing.T) {
	if os.Getenv(testkit.Emulator) != "" {
		t.Skip("systemd is not emulated")
	}
	n := newNode(t)
	enabled := false
	for _, s := range snippets(guide, guideText(t)) {
		t.Log(s.place)
		switch s.language {
		case "ini":
			n.write(s)
		case "yaml":
			n.deploy(s)
		case "sh":
			if strings.Contains(s.text, "http://localhost:8080") {
				n.restart() // with all that was done since
			}
			printed := n.run(s)
			if strings.Contains(s.text, "systemctl enable") {
				n.boot()
				enabled = true
			}
			if strings.Contains(s.text, "curl -fs http://localhost:8080") {
				require.Contains(t, printed, "xpwc_build_info{")
				require.Contains(t, printed, "xpwc_private_packed_entries_total{")
				require.NotContains(t, printed, ".damaged")
			}
		case "text":
		default:
			require.Fail(t, s.language+" is not run", s.place)
		}
	}
	require.True(t, enabled)

	out, err := exec.Command("xpwc", "ls", n.registry.Ref("models/pose:v3")).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), registry.ErrNotFound.Error(), "the old tag is deleted")
	require.NoDirExists(t, n.path("/srv/models/v3"))
}

func TestTheOperationsGuideNamesMetricsAlertsAndErrorsThatThereAre(t *testing.T) {
	text := guideText(t)
	registered := prometheus.NewRegistry()
	cache, err := xpwc.Open("", nil)
	require.NoError(t, err)
	defer cache.Close()
	model, err := executorch.Load("models/executorch/testdata/programs/mlp_dyn_fp32.pte", "", nil)
	require.NoError(t, err)
	defer model.Close()
	registered.MustRegister(metrics.NewCollector(cache), metrics.NewRunnerCollector("pose", model))
	families, err := registered.Gather()
	require.NoError(t, err)
	names := []string{}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	used := regexp.MustCompile("`(xpwc_[a-z_]+)`").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, used)
	for _, m := range used {
		require.Contains(t, names, strings.TrimSuffix(m[1], "_count"))
	}
	alerts, err := os.ReadFile("examples/service/alerts.yml")
	require.NoError(t, err)
	used = regexp.MustCompile("`(Xpwc[A-Za-z]+)`").FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, used)
	for _, m := range used {
		require.Contains(t, string(alerts), "alert: "+m[1]+"\n")
	}
	for _, err := range []error{registry.ErrNoLayout, registry.ErrUnauthorized, xpwc.ErrUnsafeFile} {
		said := regexp.MustCompile("`" + regexp.QuoteMeta(strings.SplitN(err.Error(), ";", 2)[0]) + "`")
		require.Regexp(t, said, text)
	}
	for _, reason := range xpwc.Reasons() {
		because, remedy, _ := strings.Cut(reason.Text(), ". ")
		require.Contains(t, text, fmt.Sprintf("| `%s` | %s | %s |\n", reason, strings.TrimSuffix(because, "."),
			strings.TrimSuffix(cmp.Or(remedy, "Nothing: equal bytes are in memory once"), ".")))
	}
}
