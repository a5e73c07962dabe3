package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/cachefile"
	"xpwc/internal/fd"
	"xpwc/internal/format"
)

// Pulled is the outcome of a pull.
type Pulled struct {
	Digest  string   `json:"digest"`  // of the reference's target: REF@digest is the same forever
	Layouts []Layout `json:"layouts"` // that the file has: one
	// UpToDate: the file Options.Have has exactly that, and nothing was written.
	UpToDate bool `json:"up_to_date"`
}

// Pull writes what ref, a tag or a digest, has for a layout into a file, which is empty and open for reading and
// writing. It stays the caller's, who flushes it, puts it at its path by a rename, and throws it away if there was an
// error. The OCI digests are checked while reading, then every checksum of the cache file, and that it has no other
// layout. The file gets an identity of its own, see [cachefile.Install], and in a program that has XNNPACK it says how
// this machine packs, so its header and index are not quite the registry's. Nothing is written if the file Options.Have
// has the entries that would be pulled.
//
// Errors: ErrNoLayout, ErrVersion, ErrNotFound, ErrOtherArtifact, ErrDamaged, and errors of the network and of the file
// system.
func Pull(ctx context.Context, ref string, layout Fingerprint, dst *os.File, o *Options) (*Pulled, error) {
	return pull(ctx, ref, layout, "", dst, o)
}

// find returns where the listing has a layout in the version of its files that is known.
func (l *listing) find(f Fingerprint, version string) (index int, err error) {
	err = fmt.Errorf("%w: %s; there is %s", ErrNoLayout, f, l)
	for i, l := range l.layouts {
		if l.Fingerprint != f || l.LiteRT != version {
			continue
		}
		if err = l.readable(); err == nil {
			return i, nil
		}
	}
	return -1, err
}

// String lists the layouts for an error message.
func (l *listing) String() string {
	if len(l.layouts) == 0 {
		return "none"
	}
	names := make([]string, len(l.layouts))
	for i, l := range l.layouts {
		names[i] = fmt.Sprintf("%s (%q)", l.Fingerprint, l.Description)
	}
	return strings.Join(names, ", ")
}

// pull writes what a reference has for a layout, of xpwc or of a version of LiteRT, into a file.
func pull(ctx context.Context, ref string, layout Fingerprint, version string, dst *os.File,
	o *Options) (*Pulled, error) {
	repo, err := o.repository(ref)
	if err != nil {
		return nil, err
	}
	p := &download{repo: repo, dst: dst, options: o.orDefault()}
	pulled, err := p.run(ctx, layout, version)
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", ref, translate(err))
	}
	return pulled, nil
}

// A download is a pull under way.
type download struct {
	repo    *remote.Repository
	dst     *os.File
	options Options
	listed  Layout
	file    ocispec.Descriptor // of the layout's file
}

func (p *download) run(ctx context.Context, layout Fingerprint, version string) (*Pulled, error) {
	l, err := resolve(ctx, p.repo)
	if err != nil {
		return nil, err
	}
	i, err := l.find(layout, version)
	if err != nil {
		return nil, err
	}
	p.listed = l.layouts[i]
	pulled := &Pulled{Digest: l.digest.String(), Layouts: []Layout{p.listed}}
	if p.file, err = p.describe(ctx, l.manifests[i]); err != nil {
		return nil, fmt.Errorf("layout %s: %w", layout, err)
	}
	if pulled.UpToDate = p.exists(); pulled.UpToDate {
		return pulled, nil
	}
	if err := p.fits(); err != nil {
		return nil, fmt.Errorf("layout %s: %w", layout, err)
	}
	if version != "" {
		return pulled, p.copyLiteRT(ctx)
	}
	write := func(w io.Writer) error { return p.copy(ctx, w) }
	return pulled, cachefile.Install(p.dst, write, func(info *cachefile.Info) error {
		if len(info.Layouts) != 1 || info.Layouts[0].Fingerprint != layout {
			return damage{fmt.Errorf("it is said to be of layout %s and is not", layout)}
		}
		if l := &info.Layouts[0]; format.SeenHere != nil {
			l.Evidence = format.SeenHere(layout, l.Families, l.Evidence)
		}
		return nil
	})
}

// exists reports whether the caller's file is what would be pulled: the same entries of the same layout, none of them
// damaged. What a cache notes in a file that it uses makes no difference.
func (p *download) exists() bool {
	switch {
	case p.options.Have == "":
		return false
	case p.listed.LiteRT != "":
		f, _, err := fd.OpenRegular(p.options.Have)
		if err != nil {
			return false
		}
		defer f.Close()
		return p.isFile(f)
	}
	f, err := cachefile.Open(p.options.Have)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Info()
	if err != nil || info.Format != cachefile.Native || len(info.Layouts) != 1 {
		return false
	}
	image, err := cachefile.Combine([]*cachefile.File{f}, p.listed.Fingerprint)
	return err == nil && image.FileBytes == p.file.Size && p.isFile(image.Reader())
}

// isFile reports whether content is that of the layout's file.
func (p *download) isFile(content io.Reader) bool {
	sum, err := digest.Canonical.FromReader(content)
	return err == nil && sum == p.file.Digest
}

// fits returns an error if the layout's file is not to be pulled to where it would be.
func (p *download) fits() error {
	size := p.file.Size
	if limit := p.options.MaxBytes; limit > 0 && size > limit {
		return fmt.Errorf("%d bytes, of which %d are allowed: %w", size, limit, ErrTooLarge)
	}
	dir := filepath.Dir(p.dst.Name())
	if free, ok := freeBytes(dir); ok && size > free {
		return fmt.Errorf("%d bytes, of which %d are free in %s: %w", size, free, dir, ErrTooLarge)
	}
	return nil
}

// describe returns the descriptor of the layout's file, of the kind and size in the listing.
func (p *download) describe(ctx context.Context, manifest ocispec.Descriptor) (ocispec.Descriptor, error) {
	b, err := content.FetchAll(ctx, p.repo.Manifests(), manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layer := m.Layers[0]
	switch {
	case layer.MediaType != p.listed.mediaType():
		err = damage{fmt.Errorf("it is said to be %s, and is %s", p.listed.mediaType(), layer.MediaType)}
	case layer.Size != p.listed.FileBytes:
		err = damage{fmt.Errorf("it is said to have %d bytes, and its file has %d", p.listed.FileBytes, layer.Size)}
	}
	return layer, err
}

// copy reads the layout's file and checks its digest.
func (p *download) copy(ctx context.Context, w io.Writer) error {
	body, err := p.repo.Blobs().Fetch(ctx, p.file)
	if err != nil {
		return err
	}
	defer body.Close()
	verified := content.NewVerifyReader(body, p.file)
	_, err = io.Copy(w, &counted{src: verified, total: p.file.Size, progress: p.options.Progress})
	if err == nil {
		err = ctx.Err() // the last piece was read before anybody could see the interrupt
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the registry sent a part of %d bytes, and ended: %w", p.file.Size, err)
	}
	if err != nil {
		return err
	}
	return verified.Verify()
}
