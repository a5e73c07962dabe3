package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"xpwc/cachefile"
	"xpwc/internal/format"
)

// Pushed is the outcome of a push.
type Pushed struct {
	Digest        string   `json:"digest"`             // of the index that the tag leads to now
	Layouts       []Layout `json:"layouts"`            // that were pushed
	Kept          []Layout `json:"kept"`               // other ones that the tag has
	Replaced      []Layout `json:"replaced,omitempty"` // layouts of the tag that pushed ones replaced
	Subject       string   `json:"subject,omitempty"`  // the digest of the packed weights' artifact
	UploadedBytes int64    `json:"uploaded_bytes"`     // of cache files; the registry had the others
	UpToDate      bool     `json:"up_to_date"`         // the tag had all of that, and is as it was
}

// Push adds cache files to the tag that ref names: the entries of all files, one manifest for each layout. Other
// layouts that the tag has are kept, and so are layouts in newer versions of the format; existing ones are
// replaced, and the registry's garbage collection removes their old manifests. Files may be in use, and written to, at
// the same time: what was committed last is pushed.
//
// Two pushes to one tag at the same time: the OCI distribution-spec has no conditional write of a tag. Push looks
// before it writes the tag, and after, and begins again if another index is there than it expects. So a layout can be
// lost only to a push that looked before and wrote after the whole of this one's writing and second look, a window of
// one request. Pushing again then uploads no cache file.
//
// Errors: ErrBadFile, ErrDigestReference, ErrOtherArtifact if something else has the tag, ErrNotFound if
// Options.Subject is not there, ErrConcurrent, and errors of the network.
func Push(ctx context.Context, ref string, files []string, o *Options) (*Pushed, error) {
	return pushParts(ctx, ref, o, func() ([]*part, func(), error) { return split(files) })
}

func pushParts(ctx context.Context, ref string, o *Options,
	split func() (parts []*part, closeFiles func(), err error)) (*Pushed, error) {
	repo, err := o.repository(ref)
	if err != nil {
		return nil, err
	}
	if _, err := repo.Reference.Digest(); err == nil || strings.Contains(ref, "@") {
		return nil, fmt.Errorf("push %s: %w", ref, ErrDigestReference)
	}
	parts, closeFiles, err := split()
	defer closeFiles()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadFile, err)
	}
	options := o.orDefault()
	p := &push{repo: repo, parts: parts, progress: options.Progress}
	if options.Subject != "" {
		if p.subject, err = subjectOf(ctx, repo, options.Subject); err != nil {
			return nil, fmt.Errorf("push %s: subject %s: %w", ref, options.Subject, translate(err))
		}
	}
	pushed, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("push %s: %w", ref, translate(err))
	}
	return pushed, nil
}

// subjectOf returns the descriptor of a manifest in the repository.
func subjectOf(ctx context.Context, repo *remote.Repository, ref string) (*ocispec.Descriptor, error) {
	d, err := repo.Manifests().Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}, nil
}

// A part is what a push has of one layout.
type part struct {
	layout     Layout
	content    func() io.Reader   // of the file
	cache      ocispec.Descriptor // likewise
	descriptor ocispec.Descriptor // of the manifest
	manifest   []byte
}

// split makes one cache file for each layout that the files have entries of. They are read from the files until those
// are closed.
func split(paths []string) (parts []*part, closeFiles func(), err error) {
	var files []*cachefile.File
	closeFiles = func() {
		for _, f := range files {
			_ = f.Close() // read-only
		}
	}
	layouts := map[Fingerprint]bool{}
	for _, path := range paths {
		f, err := cachefile.Open(path)
		if err != nil {
			return nil, closeFiles, err
		}
		files = append(files, f)
		info, err := f.Info()
		if err == nil && info.Format != cachefile.Native {
			err = fmt.Errorf("%s: %w", path, cachefile.ErrForeign)
		}
		if err == nil && info.Entries == 0 {
			err = fmt.Errorf("%s: it has no packed weights", path)
		}
		if err != nil {
			return nil, closeFiles, err
		}
		for _, l := range info.Layouts {
			layouts[l.Fingerprint] = true
		}
	}
	byDigits := func(a, b Fingerprint) int { return bytes.Compare(a[:], b[:]) }
	for _, layout := range slices.SortedFunc(maps.Keys(layouts), byDigits) {
		image, err := cachefile.Combine(files, layout)
		if errors.Is(err, cachefile.ErrEmpty) {
			continue // it is listed, and all its entries were dropped
		}
		if err != nil {
			return nil, closeFiles, err
		}
		p, err := newPart(image)
		if err != nil {
			return nil, closeFiles, err
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		err = errors.New("no file is given")
	}
	return parts, closeFiles, err
}

// newPart's layout is that of the annotations. The image depends on the entries alone.
func newPart(image *cachefile.Image) (*part, error) {
	sum, err := digest.Canonical.FromReader(image.Reader())
	if err != nil {
		return nil, err
	}
	p := &part{content: image.Reader, layout: Layout{
		Fingerprint:  image.Layout.Fingerprint,
		Description:  image.Layout.Description,
		Format:       format.Version,
		Entries:      int64(image.Layout.Entries),
		PayloadBytes: image.Layout.PayloadBytes,
		FileBytes:    image.FileBytes,
	}}
	return p, p.begin(sum)
}

// begin describes the file, which has that digest, and makes the first manifest.
func (p *part) begin(sum digest.Digest) error {
	title := p.layout.annotations()[ocispec.AnnotationTitle]
	p.cache = ocispec.Descriptor{
		MediaType: p.layout.mediaType(), Digest: sum, Size: p.layout.FileBytes,
		Annotations: map[string]string{ocispec.AnnotationTitle: title},
	}
	return p.encode()
}

// encode makes the manifest.
func (p *part) encode() (err error) {
	p.descriptor, p.manifest, err = encodeManifest(p.layout, p.cache)
	p.layout.Manifest = p.descriptor.Digest.String()
	return err
}

// A push is one under way.
type push struct {
	repo     *remote.Repository
	parts    []*part
	subject  *ocispec.Descriptor // nil for that which the tag has
	uploaded int64
	progress func(done, total int64)
}

// attempts is how often a push begins again because others pushed to the tag.
const attempts = 10

func (p *push) run(ctx context.Context) (*Pushed, error) {
	current, err := p.current(ctx)
	if err != nil {
		return nil, err
	}
	for range attempts {
		if err := p.describe(current); err != nil {
			return nil, err
		}
		if err := p.checkModel(current); err != nil {
			return nil, err
		}
		others, replaced, manifests := p.merge(current)
		subject := cmp.Or(p.subject, current.subject)
		descriptor, index, err := encodeIndex(manifests, subject)
		if err != nil {
			return nil, err
		}
		pushed := &Pushed{Digest: descriptor.Digest.String(), Kept: others, Replaced: replaced}
		if subject != nil {
			pushed.Subject = subject.Digest.String()
		}
		for _, part := range p.parts {
			pushed.Layouts = append(pushed.Layouts, part.layout)
		}
		if descriptor.Digest == current.digest {
			pushed.UploadedBytes, pushed.UpToDate = p.uploaded, p.uploaded == 0
			return pushed, nil
		}
		if err := p.uploadAmongOthers(ctx, current); err != nil {
			return nil, err
		}
		began := time.Now()
		prev, err := p.current(ctx)
		if err != nil {
			return nil, err
		}
		if prev.digest == current.digest {
			err := p.repo.Manifests().PushReference(ctx, descriptor, bytes.NewReader(index), p.repo.Reference.Reference)
			if err != nil {
				return nil, err
			}
		}
		// What is there now has these layouts, or the next round adds them again. Others may have looked before, and
		// replace the tag after: so it is looked at once more, at a time that they cannot know.
		for look := 1; ; look++ {
			if current, err = p.current(ctx); err != nil {
				return nil, err
			}
			if !p.isIn(current) {
				break
			}
			if look == 2 {
				pushed.UploadedBytes = p.uploaded
				return pushed, nil
			}
			if err := pause(ctx, time.Since(began)); err != nil {
				return nil, err
			}
		}
	}
	return nil, ErrConcurrent
}

// isIn reports whether a listing has all that is pushed.
func (p *push) isIn(l *listing) bool {
	if p.subject != nil && (l.subject == nil || l.subject.Digest != p.subject.Digest) {
		return false
	}
	for _, part := range p.parts {
		if !l.contains(part.descriptor) {
			return false
		}
	}
	return true
}

// current reads what the tag leads to, which may be nothing.
func (p *push) current(ctx context.Context) (*listing, error) {
	l, err := resolve(ctx, p.repo)
	if errors.Is(err, errdef.ErrNotFound) {
		return &listing{}, nil
	}
	return l, err
}

// describe keeps the tag's description of a layout of which a file knows only the architecture, as a pulled file does.
func (p *push) describe(current *listing) error {
	for _, part := range p.parts {
		index, err := current.find(part.layout.Fingerprint, "")
		if err != nil || part.layout.Description != format.Architecture(current.layouts[index].Description) {
			continue
		}
		part.layout.Description = current.layouts[index].Description
		if err := part.encode(); err != nil {
			return err
		}
	}
	return nil
}

// merge returns the manifests of the new index, and what it keeps and replaces of the current one.
func (p *push) merge(current *listing) (others, replaced []Layout, manifests []ocispec.Descriptor) {
	pushed := map[Fingerprint]*part{}
	for _, part := range p.parts {
		pushed[part.layout.Fingerprint] = part
		manifests = append(manifests, part.descriptor)
	}
	for i, l := range current.layouts {
		switch match := pushed[l.Fingerprint]; {
		case match == nil || l.LiteRT == "" && l.Format > format.Version:
			others, manifests = append(others, l), append(manifests, current.manifests[i])
		case l.Manifest != match.layout.Manifest:
			replaced = append(replaced, l)
		}
	}
	return others, replaced, append(manifests, current.newer...)
}

// uploadAmongOthers uploads, again where the registry does not know of a blob that it has: Docker's looks it up in a
// file that another push of the same blob may be about to write.
func (p *push) uploadAmongOthers(ctx context.Context, current *listing) error {
	for attempt := 1; ; attempt++ {
		began := time.Now()
		err := p.upload(ctx, current)
		var refused *errcode.ErrorResponse
		if attempt == attempts || !errors.As(err, &refused) || !slices.ContainsFunc(refused.Errors, isBlobUnknown) {
			return err
		}
		if err := pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

func isBlobUnknown(e errcode.Error) bool { return e.Code == errcode.ErrorCodeManifestBlobUnknown }

// upload brings the cache files and manifests that the registry lacks to it.
func (p *push) upload(ctx context.Context, current *listing) error {
	var missing []*part
	for _, part := range p.parts {
		if !current.contains(part.descriptor) {
			missing = append(missing, part)
		}
	}
	var files []*part
	total := int64(0)
	for _, part := range missing {
		remote, err := p.repo.Blobs().Resolve(ctx, part.cache.Digest.String())
		if err != nil && !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
		if err != nil || remote.Size != part.cache.Size { // another size means another content
			files, total = append(files, part), total+part.cache.Size
		}
	}
	done := int64(0)
	for _, part := range files {
		body := &counted{part.content(), done, total, p.progress}
		if err := p.repo.Blobs().Push(ctx, part.cache, body); err != nil {
			return fmt.Errorf("upload layout %s: %w", part.layout.Fingerprint, err)
		}
		done = body.done
		p.uploaded += part.cache.Size
	}
	if len(missing) > 0 {
		config := content.NewDescriptorFromBytes(ConfigMediaType, emptyConfig)
		if err := p.put(ctx, p.repo.Blobs(), config, emptyConfig); err != nil {
			return err
		}
	}
	for _, part := range missing {
		if err := p.put(ctx, p.repo.Manifests(), part.descriptor, part.manifest); err != nil {
			return err
		}
	}
	return nil
}

func (p *push) put(ctx context.Context, dst content.Storage, d ocispec.Descriptor, b []byte) error {
	exists, err := dst.Exists(ctx, d)
	if err != nil || exists {
		return err
	}
	return dst.Push(ctx, d, bytes.NewReader(b))
}
