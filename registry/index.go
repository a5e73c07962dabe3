package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// maxManifest is the size of the largest index or manifest that is read, in bytes. Registries refuse larger ones
// (distribution-spec v1.1.1, spec.md, "Pushing Manifests": they should take 4 megabytes at least).
const maxManifest = 4 << 20

// A listing is an index: what a reference leads to.
type listing struct {
	digest    digest.Digest // of the index that was read; empty if there was none
	manifests []ocispec.Descriptor
	layouts   []Layout             // of the manifests, in their order
	newer     []ocispec.Descriptor // which only programs of a later version understand; a push keeps them
	subject   *ocispec.Descriptor  // of the index; nil if it has none
}

// contains reports whether the index lists a manifest.
func (l *listing) contains(manifest ocispec.Descriptor) bool {
	return slices.ContainsFunc(l.manifests, func(d ocispec.Descriptor) bool { return d.Digest == manifest.Digest })
}

// List returns the layouts that a reference has, in the order of their fingerprints. Errors: ErrNotFound,
// ErrOtherArtifact, ErrDamaged, and errors of the network.
func List(ctx context.Context, ref string, o *Options) ([]Layout, error) {
	repo, err := o.repository(ref)
	if err != nil {
		return nil, err
	}
	l, err := resolve(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", ref, translate(err))
	}
	return l.layouts, nil
}

// mostTags is how many tags of a repository are read, which a registry could go on to list for ever.
const mostTags = 10_000

// Tags returns the tags of the repository of a reference, whatever its own tag is, as the registry sorts them.
// Errors: ErrNotFound, and errors of the network.
func Tags(ctx context.Context, ref string, o *Options) (tags []string, err error) {
	repo, err := o.repository(ref)
	if err != nil {
		return nil, err
	}
	err = repo.Tags(ctx, "", func(page []string) error {
		if tags = append(tags, page...); len(tags) > mostTags {
			return fmt.Errorf("more than %d tags", mostTags)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", ref, translate(err))
	}
	return tags, nil
}

// resolve reads the index that the repository's reference leads to.
func resolve(ctx context.Context, repo *remote.Repository) (*listing, error) {
	descriptor, b, err := oras.FetchBytes(ctx, repo, repo.Reference.Reference,
		oras.FetchBytesOptions{MaxBytes: maxManifest})
	if err != nil {
		return nil, err
	}
	index, err := decodeIndex(b)
	if err != nil {
		return nil, err
	}
	index.digest = descriptor.Digest
	return index, nil
}

// decodeIndex reads an index, which anybody may have written. Its digest is left out.
func decodeIndex(b []byte) (*listing, error) {
	var index ocispec.Index
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOtherArtifact, err)
	}
	if index.MediaType != ocispec.MediaTypeImageIndex || index.ArtifactType != ArtifactType {
		return nil, fmt.Errorf("%w: media type %q, artifact type %q",
			ErrOtherArtifact, index.MediaType, index.ArtifactType)
	}
	if s := index.Subject; s != nil && (s.Digest.Validate() != nil || s.Size < 0) {
		return nil, fmt.Errorf("%w: its subject has digest %q and %d bytes", ErrOtherArtifact, s.Digest, s.Size)
	}
	decoded := &listing{subject: index.Subject}
	type version struct {
		fingerprint Fingerprint
		format      int
	}
	seen := map[version]bool{}
	for _, m := range index.Manifests {
		l, err := layoutOf(m.Annotations)
		isManifest := m.MediaType == ocispec.MediaTypeImageManifest && m.Digest.Validate() == nil &&
			m.Size >= 0 && m.Size <= maxManifest
		if err == nil && !isManifest {
			err = fmt.Errorf("layout %s has no manifest", l.Fingerprint)
		}
		if err != nil && isNewer(m.Annotations) && m.Digest.Validate() == nil {
			decoded.newer = append(decoded.newer, m)
			continue
		}
		v := version{l.Fingerprint, l.Format}
		if err == nil && seen[v] {
			err = fmt.Errorf("layout %s is there twice", l.Fingerprint)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOtherArtifact, err)
		}
		seen[v] = true
		l.Manifest = m.Digest.String()
		decoded.manifests, decoded.layouts = append(decoded.manifests, m), append(decoded.layouts, l)
	}
	return decoded, nil
}

// encodeIndex is the inverse of decodeIndex. The same manifests give the same bytes, whatever their order. There may be
// no subject.
func encodeIndex(manifests []ocispec.Descriptor, subject *ocispec.Descriptor) (ocispec.Descriptor, []byte, error) {
	manifests = slices.SortedFunc(slices.Values(manifests), func(a, b ocispec.Descriptor) int {
		return cmp.Or(cmp.Compare(a.Annotations[annotationLayout], b.Annotations[annotationLayout]),
			cmp.Compare(a.Digest, b.Digest))
	})
	return encode(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned:    specs.Versioned{SchemaVersion: 2}, // image-index.md: "this MUST be 2"
		MediaType:    ocispec.MediaTypeImageIndex,
		ArtifactType: ArtifactType,
		Manifests:    manifests,
		Subject:      subject,
	})
}

// decodeManifest reads a layout's manifest, which anybody may have written.
func decodeManifest(b []byte) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrOtherArtifact, err)
	}
	if m.Config.MediaType != ConfigMediaType || len(m.Layers) != 1 ||
		m.Layers[0].MediaType != CacheMediaType && m.Layers[0].MediaType != LiteRTMediaType {
		return m, fmt.Errorf("%w: a manifest with config %q and %d layers",
			ErrOtherArtifact, m.Config.MediaType, len(m.Layers))
	}
	if layer := m.Layers[0]; layer.Digest.Validate() != nil || layer.Size < 0 {
		return m, fmt.Errorf("%w: its layer has digest %q and %d bytes", ErrOtherArtifact, layer.Digest, layer.Size)
	}
	return m, nil
}

var emptyConfig = []byte("{}")

// encodeManifest returns a layout's manifest and its descriptor for the index.
func encodeManifest(l Layout, cache ocispec.Descriptor) (ocispec.Descriptor, []byte, error) {
	d, b, err := encode(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: ArtifactType,
		Config:       content.NewDescriptorFromBytes(ConfigMediaType, emptyConfig),
		Layers:       []ocispec.Descriptor{cache},
		Annotations:  l.annotations(),
	})
	d.ArtifactType, d.Annotations, d.Platform = ArtifactType, l.annotations(), l.platform()
	return d, b, err
}

func encode(mediaType string, v any) (ocispec.Descriptor, []byte, error) {
	b, err := json.Marshal(v) // sorts the annotations
	if err == nil && len(b) > maxManifest {
		err = fmt.Errorf("the index of %d layouts would have %d bytes, of which registries take %d",
			bytes.Count(b, []byte(`"`+annotationLayout+`":`)), len(b), maxManifest)
	}
	return content.NewDescriptorFromBytes(mediaType, b), b, err
}

var denied = []int{http.StatusUnauthorized, http.StatusForbidden}

// translate makes the client's errors the package's.
func translate(err error) error {
	var response *errcode.ErrorResponse
	answered := errors.As(err, &response)
	if answered && !errors.As(err, new(answer)) {
		err = answer{err, response}
	}
	switch {
	case errors.As(err, new(damage)):
		return err
	case isSilence(err):
		return fmt.Errorf("%w: %w", ErrSilent, err)
	case errors.Is(err, errdef.ErrNotFound), answered && response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, strings.TrimSuffix(err.Error(), ": "+errdef.ErrNotFound.Error()))
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData),
		errors.Is(err, ErrDamaged):
		// What is wrong with a file whose digest is right was wrong when it was pushed.
		return damage{err}
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%w; none are stored for this one", ErrUnauthorized)
	case answered && slices.Contains(denied, response.StatusCode):
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	return err
}

// An answer is an error with the registry's answer in words, without the details that only programs read.
type answer struct {
	err      error
	response *errcode.ErrorResponse
}

func (a answer) Error() string {
	var said []string
	for _, e := range a.response.Errors {
		e.Detail = nil
		said = append(said, e.Error())
	}
	if len(said) == 0 {
		said = append(said, strings.ToLower(http.StatusText(a.response.StatusCode)))
	}
	words := fmt.Sprintf("%s answers %s with %d: %s", a.response.URL.Host, a.response.Method, a.response.StatusCode,
		strings.Join(said, "; "))
	return strings.ReplaceAll(a.err.Error(), a.response.Error(), words)
}

func (a answer) Unwrap() error { return a.err }
