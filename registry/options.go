package registry

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// Options are for every function of the package. The zero value, and nil, is what most want. The registry is given the
// credentials of docker's config.json and of the credential helpers that it names, in $DOCKER_CONFIG or ~/.docker;
// without any, it is asked anonymously.
type Options struct {
	// PlainHTTP selects requests without TLS. By default only one on this machine (localhost and
	// loopback addresses) is.
	PlainHTTP *bool
	// Transport makes the HTTP requests; by default one like http.DefaultTransport, which knows proxies, with Silence.
	Transport http.RoundTripper
	// Silence is for how long next to nothing may move on a connection, while it is made, while an answer is waited
	// for, and in the midst of a file; then the error matches ErrSilent. Zero is DefaultSilence. It is for the default
	// Transport.
	Silence time.Duration
	// MaxBytes is how many bytes are pulled at most; zero sets no limit. What is larger than the space that is free
	// where it is to be is not pulled either. The error matches ErrTooLarge.
	MaxBytes int64
	// Have is the path of a cache file that may be what a pull is to bring: then it stays, and nothing is written. So
	// processes that map it from now on share its pages with earlier ones. The whole file is read.
	// Whether xpwc.Open would open it is not looked at.
	Have string
	// Subject is the artifact that the pushed packed weights belong to: the model's own artifact, by its tag or digest
	// in the same repository. Registries list the packed weights among its referrers then (image-spec 1.1,
	// image-index.md; where a registry has no such list, a tag has it, as in the distribution-spec). Without it, a tag
	// keeps the subject that it has.
	Subject string
	// Progress, if not nil, is given how many bytes of cache files have been moved, of how many. It is called often,
	// from one goroutine at a time.
	Progress func(done, total int64)
}

// repository returns the client of a reference's repository. Without a tag or digest the tag is latest.
func (o *Options) repository(ref string) (*remote.Repository, error) {
	options := o.orDefault()
	repo, err := parse(ref)
	if err != nil {
		return nil, err
	}
	repo.Reference.Reference = repo.Reference.ReferenceOrDefault()
	repo.PlainHTTP = onThisMachine(repo.Reference.Host())
	if options.PlainHTTP != nil {
		repo.PlainHTTP = *options.PlainHTTP
	}
	repo.SkipReferrersGC = true // many registries do not let clients delete; their own garbage collection does it
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("docker's credentials: %w", err)
	}
	base := options.Transport
	if base == nil {
		base = transport(cmp.Or(options.Silence, DefaultSilence))
	}
	client := &auth.Client{
		Client:     &http.Client{Transport: retrying(base)},
		Credential: credentials.Credential(store),
		Cache:      auth.NewCache(),
	}
	client.SetUserAgent("xpwc")
	repo.Client = client
	return repo, nil
}

// parse returns the repository of a reference, with no client yet.
func parse(ref string) (*remote.Repository, error) {
	repo, err := remote.NewRepository(ref)
	if err != nil {
		return nil, fmt.Errorf("%q: %w: it must read like registry.example/name:tag", ref, err)
	}
	return repo, nil
}

// Name returns the last part of a reference's repository: pose of registry.example/models/pose:v3. It has neither a
// slash nor a dot at its beginning (distribution-spec 1.1, "Pulling manifests"). The error is that ref is no reference.
func Name(ref string) (string, error) {
	repo, err := parse(ref)
	if err != nil {
		return "", err
	}
	return path.Base(repo.Reference.Repository), nil
}

func onThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (o *Options) orDefault() Options {
	if o == nil {
		return Options{}
	}
	return *o
}
