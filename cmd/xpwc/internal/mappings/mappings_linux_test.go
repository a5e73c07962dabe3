package mappings_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/cmd/xpwc/internal/mappings"
	"xpwc/internal/tests/testkit"
)

const (
	envMap     = "XPWC_TEST_MAP"     // the process maps this file, reads it, and waits for the end of its input
	envMounted = "XPWC_TEST_MOUNTED" // before that, it mounts this directory where the file's is
	envSurvey  = "XPWC_TEST_SURVEY"  // the process surveys this path
)

func TestMain(m *testing.M) {
	if path := os.Getenv(envSurvey); path != "" {
		s, err := mappings.Find(path)
		if err == nil {
			s.Info = nil // which is no JSON
			err = json.NewEncoder(os.Stdout).Encode(s)
		}
		if err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	if path := os.Getenv(envMap); path != "" {
		fmt.Println(mapAndWait(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func mapAndWait(path string) error {
	if source := os.Getenv(envMounted); source != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := unix.Mount(source, filepath.Dir(path), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	_ = f.Close()
	if _, err := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{bytes.NewReader(b)}); err != nil {
		return err
	}
	fmt.Println("mapped")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// start starts this program, which goes on until the test ends, and returns it when it has mapped its file.
func start(t *testing.T, prepare func(*exec.Cmd), environment ...string) *exec.Cmd {
	t.Helper()
	cmd := testkit.Command()
	cmd.Env = append(os.Environ(), environment...)
	if prepare != nil {
		prepare(cmd)
	}
	testkit.Await(t, cmd, "mapped")
	return cmd
}

const pages = 64

var size = int64(pages * os.Getpagesize())

func write(t *testing.T, path string) {
	t.Helper()
	next := path + ".next"
	require.NoError(t, os.WriteFile(next, bytes.Repeat([]byte{1}, int(size)), 0o644))
	require.NoError(t, os.Rename(next, path))
}

// survey returns what is found of a path, by process.
func survey(t *testing.T, path string) map[int]mappings.User {
	t.Helper()
	s, err := mappings.Find(path)
	require.NoError(t, err)
	users := map[int]mappings.User{}
	for _, u := range s.Users {
		users[u.PID] = u
	}
	require.Len(t, users, len(s.Users))
	return users
}

func TestProcessesThatShareAFileAndOneOnTheFileBeforeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.xpwc")
	write(t, path)
	old := start(t, nil, envMap+"="+path)
	write(t, path)
	first, second := start(t, nil, envMap+"="+path), start(t, nil, envMap+"="+path)

	users := survey(t, path)
	require.Len(t, users, 3)
	for _, cmd := range []*exec.Cmd{first, second} {
		u := users[cmd.Process.Pid]
		require.True(t, u.Current)
		require.Equal(t, size, u.Memory.Mapped)
		require.Equal(t, size, u.Memory.Resident)
		require.Equal(t, size/2, u.Memory.Share, "each page counts half")
		require.Equal(t, size, u.Shared)
		require.Zero(t, u.Private)
		require.Equal(t, size, u.Beginning)
		require.EqualValues(t, os.Geteuid(), u.UID)
		name := filepath.Base(cmd.Path)
		require.Equal(t, name[:min(len(name), 15)], u.Command)
	}
	previous := users[old.Process.Pid]
	require.False(t, previous.Current)
	require.NotEqual(t, users[first.Process.Pid].File, previous.File)
	require.Equal(t, size, previous.Memory.Share)
	require.Equal(t, size, previous.Private)

	require.NoError(t, os.Remove(path))
	for _, u := range survey(t, path) {
		require.False(t, u.Current, "nothing is at the path")
	}
	require.Len(t, survey(t, path), 3)
}

func TestFilesAreFoundByAnyNameAndPath(t *testing.T) {
	for _, name := range []string{"with two  blanks ", "with\na newline", `with \012 in it`, "gone (deleted)", "ü:-"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			write(t, path)
			decoy := filepath.Join(dir, name+" (deleted)") // whose name is written as that of a deleted file
			write(t, decoy)
			bystander := start(t, nil, envMap+"="+decoy)
			require.NoError(t, os.Link(path, filepath.Join(dir, "hard")))
			require.NoError(t, os.Symlink(dir, filepath.Join(dir, "current")))
			user := start(t, nil, envMap+"="+path)
			for _, alias := range []string{path, filepath.Join(dir, "hard"), filepath.Join(dir, "current", name)} {
				users := survey(t, alias)
				require.Contains(t, users, user.Process.Pid)
				require.NotContains(t, users, bystander.Process.Pid)
				require.True(t, users[user.Process.Pid].Current)
			}
			write(t, path)
			for _, alias := range []string{path, filepath.Join(dir, "current", name)} {
				users := survey(t, alias)
				require.Contains(t, users, user.Process.Pid)
				require.NotContains(t, users, bystander.Process.Pid)
				require.False(t, users[user.Process.Pid].Current)
			}
		})
	}
}

// newNamespace has a process see other mounts than this one.
func newNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount, and be another user")
	}
}

func TestAContainerHasTheFileAtAnotherPath(t *testing.T) {
	needRoot(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "model.xpwc")
	write(t, path)
	inside := start(t, newNamespace, envMounted+"="+dir, envMap+"="+filepath.Join(elsewhere, "model.xpwc"))
	require.True(t, survey(t, path)[inside.Process.Pid].Current)
	write(t, path)
	users := survey(t, path)
	require.Contains(t, users, inside.Process.Pid, "its path leads here, too")
	require.False(t, users[inside.Process.Pid].Current)
}

// The system shows other device and inode numbers for a mapping than stat there, or used to.
func TestAFileOfAnOverlay(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	write(t, filepath.Join(dir, "lower", "model.xpwc"))
	merged := filepath.Join(dir, "merged")
	options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir, dir, dir)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Skipf("no overlay can be mounted here: %v", err)
	}
	var users sync.WaitGroup
	t.Cleanup(func() { users.Wait(); require.NoError(t, unix.Unmount(merged, unix.MNT_DETACH)) })
	path := filepath.Join(merged, "model.xpwc")
	user := start(t, nil, envMap+"="+path)
	u := survey(t, path)[user.Process.Pid]
	require.True(t, u.Current)
	require.Equal(t, size, u.Memory.Resident)
	write(t, path)
	second := survey(t, path)
	require.Contains(t, second, user.Process.Pid)
	require.False(t, second[user.Process.Pid].Current)
}

func TestProcessesOfOthersAreCounted(t *testing.T) {
	needRoot(t)
	dir, err := os.MkdirTemp("", "xpwc-mappings") // not t.TempDir, into which other users cannot look
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	copied := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(copied, program, 0o755))
	path := filepath.Join(dir, "model.xpwc")
	write(t, path)

	const nobody = 65534
	asNobody := func(cmd *exec.Cmd) {
		cmd.Path = copied
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	start(t, nil, envMap+"="+path)
	theirs := start(t, asNobody, envMap+"="+path)
	require.Len(t, survey(t, path), 2, "root sees both")

	cmd := testkit.Command()
	cmd.Env = append(os.Environ(), envSurvey+"="+path)
	asNobody(cmd)
	out, err := cmd.Output()
	require.NoError(t, err)
	var s mappings.Survey
	require.NoError(t, json.Unmarshal(out, &s), "%s", out)
	require.Len(t, s.Users, 1)
	require.Equal(t, theirs.Process.Pid, s.Users[0].PID)
	require.EqualValues(t, nobody, s.Users[0].UID)
	require.Positive(t, s.Hidden)
}

func TestProcessesMayEndMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.xpwc")
	write(t, path)
	done := make(chan struct{})
	var short sync.WaitGroup
	for range 2 {
		short.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				cmd := testkit.Command()
				cmd.Env = append(os.Environ(), envMap+"="+path)
				cmd.Stdin = strings.NewReader("") // it ends at once
				_ = cmd.Run()
			}
		})
	}
	surveys := 100
	if testing.Short() {
		surveys = 20
	}
	for range surveys {
		survey(t, path)
	}
	close(done)
	short.Wait()
	require.Empty(t, survey(t, path))
}

func TestOnlyFilesThatCanBeMappedAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	_, err := mappings.Find(dir)
	require.ErrorContains(t, err, "not a regular file")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	_, err = mappings.Find(filepath.Join(dir, "pipe"))
	require.ErrorContains(t, err, "not a regular file")
}
