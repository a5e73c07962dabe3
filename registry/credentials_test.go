//go:build cgo

package registry_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

// htpasswd is user "node" with password "secret" (bcrypt).
const htpasswd = "node:$2a$04$xDY8s3yOY7TgHvcQbKbznuqO0Qaf4PTL.PtGnZmMCckNTCLwKWARC\n"

// logIn writes docker's config.json as docker login does, and has it used.
func logIn(t *testing.T, host, user, password string) {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		host: map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" + password))},
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
}

func TestCredentialsAreThoseOfDocker(t *testing.T) {
	users := filepath.Join(t.TempDir(), "htpasswd")
	require.NoError(t, os.WriteFile(users, []byte(htpasswd), 0o600))
	s := registrytest.Start(t, "auth: {htpasswd: {realm: test, path: "+users+"}}")
	cache, _ := pack(t)
	file := filepath.Join(t.TempDir(), "c.xpwc")
	refused := func(says string) {
		t.Helper()
		_, err := registry.Push(t.Context(), s.Ref("face:v1"), []string{cache}, nil)
		require.ErrorIs(t, err, registry.ErrUnauthorized)
		require.ErrorContains(t, err, s.Host)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "map[", "words, and no value of Go")
		_, err = pullAt(t.Context(), s.Ref("face:v1"), layoutOf(t, cache), file, nil)
		require.ErrorIs(t, err, registry.ErrUnauthorized)
		require.NoFileExists(t, file)
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	refused("none are stored for this one")
	logIn(t, s.Host, "node", "wrong")
	refused(s.Host + " answers GET with 401: unauthorized: authentication required")
	logIn(t, s.Host, "node", "secret")
	push(t, s.Ref("face:v1"), cache)
	_, err := pullAt(t.Context(), s.Ref("face:v1"), layoutOf(t, cache), file, nil)
	require.NoError(t, err)
	require.FileExists(t, file)
}

func TestOnlyARegistryOnThisMachineIsTalkedToWithoutTLS(t *testing.T) {
	s := registrytest.Start(t)
	_, err := registry.List(t.Context(), s.Ref("face:v1"), nil)
	require.ErrorIs(t, err, registry.ErrNotFound, "it answered")
	tls := false
	_, err = registry.List(t.Context(), s.Ref("face:v1"), &registry.Options{PlainHTTP: &tls})
	require.ErrorContains(t, err, "https://")
	for _, host := range []string{"localhost", "localhost:5000", "127.0.0.1", "127.8.9.1:5000", "[::1]:5000"} {
		require.True(t, registry.OnThisMachine(host), host)
	}
	for _, host := range []string{
		"registry.example", "registry.example:5000", "localhost.example", "10.0.0.1:5000", "[fe80::1]:5000", "",
	} {
		require.False(t, registry.OnThisMachine(host), host)
	}
}
