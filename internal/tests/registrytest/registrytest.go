// Package registrytest runs a real OCI registry for tests: Debian's docker-registry, on loopback.
package registrytest

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// A Server is a registry with its files in a directory of the test.
type Server struct {
	Host string // with its port
	Stop func() // kills it, unless it was
	Dir  string // with its files
}

var listening = regexp.MustCompile(`msg="listening on ([^"]+)"`)

// Start starts a registry that is stopped when the test ends, with further lines of its configuration.
func Start(t testing.TB, extra ...string) *Server {
	t.Helper()
	program := testkit.Program(t, "docker-registry")
	s := &Server{Dir: t.TempDir()}
	config := filepath.Join(t.TempDir(), "config.yml")
	require.NoError(t, os.WriteFile(config, []byte("version: 0.1\nlog: {level: info}\n"+
		"storage: {filesystem: {rootdirectory: "+s.Dir+"}}\n"+
		"http: {addr: '127.0.0.1:0', secret: test}\n"+strings.Join(extra, "\n")), 0o600))
	cmd := exec.Command(program, "serve", config)
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s.Stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(s.Stop)
	var output strings.Builder
	lines := bufio.NewScanner(log)
	for s.Host == "" && lines.Scan() {
		fmt.Fprintln(&output, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			s.Host = m[1]
		}
	}
	require.NotEmpty(t, s.Host, "the registry did not start:\n%s", &output)
	go func() { // it would wait for a full pipe
		for lines.Scan() {
		}
	}()
	return s
}

// Ref returns the reference of NAME:TAG in the registry.
func (s *Server) Ref(name string) string { return s.Host + "/" + name }

// Blobs returns the paths of the stored blobs that have more bytes than that.
func (s *Server) Blobs(t testing.TB, larger int64) (paths []string) {
	t.Helper()
	blobs := filepath.Join(s.Dir, "docker", "registry", "v2", "blobs")
	require.NoError(t, filepath.WalkDir(blobs, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > larger {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}
