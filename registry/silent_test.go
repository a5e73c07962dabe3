//go:build cgo

package registry_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

// A registry that is reached and then does not answer, or stops in the midst of a file, must not hold up a node's
// start.
func TestASilentRegistryIsAnErrorAndNotWaitedForWithoutEnd(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	push(t, s.Ref("face:v1"), cache)
	for name, silent := range map[string]func(r *http.Request) bool{
		"at once":                 func(*http.Request) bool { return true },
		"but for a byte at times": func(r *http.Request) bool { return r.Method == http.MethodGet && isBlob(r) },
		"in the midst of a file":  func(r *http.Request) bool { return r.Method == http.MethodGet && isBlob(r) },
		"when a file is uploaded": func(r *http.Request) bool { return r.Method == http.MethodPost && isBlob(r) },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !silent(r):
					forward(t, s.Host, w, r, math.MaxInt64)
					return
				case strings.Contains(name, "at times"):
					drip(w, ended)
					return
				case r.Method == http.MethodGet && isBlob(r):
					forward(t, s.Host, w, r, 1000)
				}
				<-ended
			}))
			defer front.Close()
			defer close(ended)
			o := &registry.Options{Silence: 300 * time.Millisecond}
			host := strings.TrimPrefix(front.URL, "http://")
			dir := t.TempDir()
			var err error
			if strings.Contains(name, "uploaded") {
				_, err = registry.Push(t.Context(), host+"/face:v2", []string{packOn(t, lesser, modelFile(t))}, o)
			} else {
				_, err = pullAt(t.Context(), host+"/face:v1", layoutOf(t, cache), filepath.Join(dir, "c"), o)
			}
			require.ErrorIs(t, err, registry.ErrSilent)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// A server that only answers pings does not answer. Over HTTP/2 a server's pings are answered on the connection, which
// is then never still.
func TestARegistryThatOnlyPingsIsSilent(t *testing.T) {
	ended := make(chan struct{})
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	front.EnableHTTP2 = true
	front.Config.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Millisecond, PingTimeout: time.Minute}
	front.StartTLS()
	defer front.Close()
	defer close(ended)
	trustServer(t, front)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // of a test that fails
	defer cancel()
	tls := false
	_, err := registry.List(ctx, strings.TrimPrefix(front.URL, "https://")+"/face:v1",
		&registry.Options{Silence: 300 * time.Millisecond, PlainHTTP: &tls})
	require.ErrorIs(t, err, registry.ErrSilent)
}

// trustServer has what is made of http.DefaultTransport trust a server's certificate.
func trustServer(t *testing.T, s *httptest.Server) {
	original := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = original })
	trusting := original.(*http.Transport).Clone()
	trusting.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	http.DefaultTransport = trusting
}

// drip answers with a byte at a time, for much longer than the registry may be silent.
func drip(w http.ResponseWriter, ended chan struct{}) {
	ticks := time.NewTicker(30 * time.Millisecond)
	defer ticks.Stop()
	for range 100 {
		select {
		case <-ended:
			return
		case <-ticks.C:
		}
		_, _ = w.Write([]byte{0})
		w.(http.Flusher).Flush()
	}
}

func isBlob(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") }

// forward answers a request as the registry does, with so much of the body.
func forward(t *testing.T, host string, w http.ResponseWriter, r *http.Request, limit int64) {
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "http", host
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, limit))
	w.(http.Flusher).Flush()
}

// A push that read the tag earlier may replace it later.
func TestATagThatIsReplacedByWhoHadNotSeenThePushIsPushedAgain(t *testing.T) {
	s := registrytest.Start(t)
	file, _ := pack(t)
	theirs := push(t, s.Ref("face:theirs"), packOn(t, lesser, modelFile(t)))
	repo, err := remote.NewRepository(s.Ref("face"))
	require.NoError(t, err)
	repo.PlainHTTP = true
	index, err := repo.Resolve(t.Context(), theirs.Digest)
	require.NoError(t, err)
	tagged, replaced := false, false
	w := &wire{response: func(r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			return
		}
		if tagged && !replaced { // this push has seen its own
			replaced = true
			require.NoError(t, repo.Tag(t.Context(), index, "v1"))
		}
		tagged = tagged || r.Method == http.MethodPut
	}}
	pushed, err := registry.Push(t.Context(), s.Ref("face:v1"), []string{file}, &registry.Options{Transport: w})
	require.NoError(t, err)
	require.True(t, replaced)
	require.Equal(t, theirs.Layouts, pushed.Kept)
	listed, err := registry.List(t.Context(), s.Ref("face:v1"), nil)
	require.NoError(t, err)
	require.ElementsMatch(t, append(theirs.Layouts, pushed.Layouts...), listed)
}

// A registry could fill the disk.
func TestAFileThatIsTooLargeIsNotDownloaded(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	layout := layoutOf(t, cache)
	push(t, s.Ref("face:v1"), cache)
	downloads := 0
	w := &wire{request: func(r *http.Request) {
		if r.Method == http.MethodGet && isBlob(r) {
			downloads++
		}
	}}
	file := filepath.Join(t.TempDir(), "c")
	_, err := pullAt(t.Context(), s.Ref("face:v1"), layout, file, &registry.Options{Transport: w, MaxBytes: 1000})
	require.ErrorIs(t, err, registry.ErrTooLarge)

	const huge = 1 << 50
	for said, want := range map[int64]error{0: registry.ErrDamaged, huge: registry.ErrTooLarge} {
		ref := forge(t, s, said, func(_ *remote.Repository, layer *ocispec.Descriptor) { layer.Size = huge })
		_, err = pullAt(t.Context(), ref, layout, file, &registry.Options{Transport: w})
		require.ErrorIs(t, err, want)
	}
	require.Zero(t, downloads)
	require.NoFileExists(t, file)
}
