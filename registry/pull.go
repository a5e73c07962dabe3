package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/internal/output"
)

// Pulled is the outcome of a pull.
type Pulled struct {
	Digest  string   `json:"digest"`  // of what the reference leads to: REF@digest is the same forever
	Layouts []Layout `json:"layouts"` // that the file has
	// UpToDate: the file Options.Have has exactly that, and nothing was written.
	UpToDate bool `json:"up_to_date"`
}

// Pull writes what ref, a tag or a digest, has for a layout into a file, which is empty and open for reading and
// writing. It stays the caller's, who flushes it, puts it at its path by a rename, and throws it away if there was an
// error. The OCI digests are checked while reading, then every checksum of the cache file, and that it has no other
// layout. The file gets an identity of its own, see [cachefile.Install], and says what was seen of machines that pack
// in its layout, so its header and index are not quite the registry's. Nothing is written if the file Options.Have has
// the entries that would be pulled.
//
// Errors: ErrNoLayout, ErrVersion, ErrNotFound, ErrOtherArtifact, ErrDamaged, and those of the network and of the file
// system.
func Pull(ctx context.Context, ref string, layout Fingerprint, to *os.File, o *Options) (*Pulled, error) {
	return pull(ctx, ref, o, func(p *download, l *listing) ([]int, error) {
		return p.one(ctx, l, layout, "", to)
	})
}

// PullAll is Pull for all layouts, in one file. Those of other versions of the format, and for LiteRT, are left out. If
// there is nothing else, the error matches ErrVersion or ErrNoLayout.
func PullAll(ctx context.Context, ref string, to *os.File, o *Options) (*Pulled, error) {
	return pull(ctx, ref, o, func(p *download, l *listing) ([]int, error) {
		var all []int
		var unreadable error
		for i, l := range l.layouts {
			if l.LiteRT != "" {
				continue
			}
			if err := l.readable(); err != nil {
				unreadable = err
				continue
			}
			all = append(all, i)
			if p.total += l.FileBytes; p.total < 0 { // more than there is anywhere
				p.total = math.MaxInt64
			}
		}
		if len(all) == 0 {
			return nil, cmp.Or(unreadable, fmt.Errorf("%w: there is %s", ErrNoLayout, l))
		}
		if err := p.has(ctx, l, all); err != nil || p.upToDate {
			return all, err
		}
		if err := p.fits(p.total, filepath.Dir(to.Name())); err != nil {
			return nil, fmt.Errorf("all layouts: %w", err)
		}
		return all, p.fetchAll(ctx, l, all, to)
	})
}

// one pulls what the listing has for a layout, of xpwc or of a version of LiteRT, into a file.
func (p *download) one(ctx context.Context, from *listing, layout Fingerprint, version string,
	to *os.File) ([]int, error) {
	at, err := from.find(layout, version)
	if err != nil {
		return nil, err
	}
	p.total = from.layouts[at].FileBytes
	if err := p.has(ctx, from, []int{at}); err != nil || p.upToDate {
		return []int{at}, err
	}
	return []int{at}, p.fetch(ctx, from, at, to)
}

// find returns where the listing has a layout in the version of its files that is known.
func (l *listing) find(f Fingerprint, version string) (at int, err error) {
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

// layout returns what the listing says of a layout.
func (l *listing) layout(f Fingerprint) (listed Layout, known bool) {
	at, err := l.find(f, "")
	if err != nil {
		return Layout{}, false
	}
	return l.layouts[at], true
}

// describe is what a file of all layouts says of one.
func (l *listing) describe(of cachefile.Layout) cachefile.Description {
	as := cachefile.Description{Text: of.Description, Evidence: of.Evidence}
	if listed, known := l.layout(of.Fingerprint); known {
		as.Text = listed.Description
	}
	return as
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

// pull resolves a reference and has fetch bring what it chooses of it.
func pull(ctx context.Context, ref string, o *Options, fetch func(*download, *listing) (chosen []int, err error),
) (*Pulled, error) {
	repo, err := o.repository(ref)
	if err != nil {
		return nil, err
	}
	var chosen []int
	listed, err := resolve(ctx, repo)
	d := &download{repo: repo, progress: o.progress()}
	if o != nil {
		d.have, d.maxBytes = o.Have, o.MaxBytes
	}
	if err == nil {
		chosen, err = fetch(d, listed)
	}
	if err != nil {
		return nil, fmt.Errorf("pull %s: %w", ref, translate(err))
	}
	pulled := &Pulled{Digest: listed.descriptor.Digest.String(), UpToDate: d.upToDate}
	for _, i := range chosen {
		pulled.Layouts = append(pulled.Layouts, listed.layouts[i])
	}
	return pulled, nil
}

// A download is a pull under way.
type download struct {
	repo        *remote.Repository
	progress    func(done, total int64)
	done, total int64 // bytes
	have        string
	upToDate    bool
	maxBytes    int64 // 0 for no limit
}

// has finds out whether the file that the caller has is what would be pulled: the same entries of the same layouts,
// none of them damaged. What a cache notes in a file that it uses makes no difference.
func (p *download) has(ctx context.Context, from *listing, chosen []int) error {
	if p.have == "" {
		return nil
	}
	if one := chosen[0]; from.layouts[one].LiteRT != "" {
		cache, err := p.cacheOf(ctx, from, one)
		p.upToDate = err == nil && isFile(p.have, cache.Digest)
		return err
	}
	f, err := cachefile.Open(p.have)
	if err != nil {
		return nil // whatever is wrong with it, it is not what would be pulled
	}
	defer f.Close()
	info, err := f.Info()
	if err != nil || info.Format != cachefile.Native || len(info.Layouts) != len(chosen) {
		return nil
	}
	for _, i := range chosen {
		layout := from.layouts[i].Fingerprint
		of := func(e cachefile.Entry) bool { return e.Layout == layout }
		image, err := cachefile.Combine([]*cachefile.File{f}, of, ofEntriesAlone)
		if err != nil || image.FileBytes != from.layouts[i].FileBytes {
			return nil
		}
		cache, err := p.cacheOf(ctx, from, i)
		if err != nil {
			return err
		}
		sum, err := digest.Canonical.FromReader(image.Reader())
		if err != nil || sum != cache.Digest {
			return nil
		}
	}
	p.upToDate = true
	return nil
}

// fetch writes the cache file of a layout.
func (p *download) fetch(ctx context.Context, from *listing, i int, to *os.File) error {
	layout := from.layouts[i].Fingerprint
	cache, err := p.cacheOf(ctx, from, i)
	if err == nil {
		err = p.fits(cache.Size, filepath.Dir(to.Name()))
	}
	if err != nil {
		return fmt.Errorf("layout %s: %w", layout, err)
	}
	if from.layouts[i].LiteRT != "" {
		return p.copyLiteRT(ctx, to, cache, from.layouts[i])
	}
	write := func(w io.Writer) error { return p.copy(ctx, w, cache) }
	return cachefile.Install(to, write, func(info cachefile.Info) error {
		if len(info.Layouts) != 1 || info.Layouts[0].Fingerprint != layout {
			return damage{fmt.Errorf("it is said to be of layout %s and is not", layout)}
		}
		return nil
	}, func(l cachefile.Layout) string {
		if format.SeenHere == nil {
			return from.layouts[i].evidence
		}
		return format.SeenHere(l.Fingerprint, l.Families, from.layouts[i].evidence)
	})
}

// fits returns an error if a file of so many bytes is not to be pulled into a directory.
func (p *download) fits(size int64, dir string) error {
	if p.maxBytes > 0 && size > p.maxBytes {
		return fmt.Errorf("%d bytes, of which %d are allowed: %w", size, p.maxBytes, ErrTooLarge)
	}
	if free, known := freeBytes(dir); known && size > free {
		return fmt.Errorf("%d bytes, of which %d are free in %s: %w", size, free, dir, ErrTooLarge)
	}
	return nil
}

// cacheOf returns the descriptor of a layout's file, of the kind and size that the listing says.
func (p *download) cacheOf(ctx context.Context, from *listing, i int) (ocispec.Descriptor, error) {
	b, err := content.FetchAll(ctx, p.repo.Manifests(), from.manifests[i])
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layer, listed := m.Layers[0], from.layouts[i]
	switch {
	case layer.MediaType != listed.mediaType():
		err = damage{fmt.Errorf("it is said to be %s, and is %s", listed.mediaType(), layer.MediaType)}
	case layer.Size != listed.FileBytes:
		err = damage{fmt.Errorf("it is said to have %d bytes, and its file has %d", listed.FileBytes, layer.Size)}
	}
	return layer, err
}

// copy reads a blob and checks its digest.
func (p *download) copy(ctx context.Context, w io.Writer, blob ocispec.Descriptor) error {
	body, err := p.repo.Blobs().Fetch(ctx, blob)
	if err != nil {
		return err
	}
	defer body.Close()
	verified := content.NewVerifyReader(body, blob)
	count := func(n int) {
		p.done += int64(n)
		p.progress(p.done, max(p.done, p.total)) // the total is what annotations say
	}
	_, err = io.Copy(w, &counted{ctx, verified, count})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the registry sent a part of %d bytes, and ended: %w", blob.Size, err)
	}
	if err != nil {
		return err
	}
	return verified.Verify()
}

// fetchAll writes one cache file of several layouts, by way of one of each in the same directory.
func (p *download) fetchAll(ctx context.Context, from *listing, all []int, to *os.File) error {
	var files []*cachefile.File
	for _, i := range all {
		one, err := output.New(to.Name())
		if err != nil {
			return err
		}
		defer one.Discard()
		if err := p.fetch(ctx, from, i, one.File); err != nil {
			return err
		}
		info, err := one.Stat()
		if err != nil {
			return err
		}
		f, err := cachefile.NewFile(one, info.Size())
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	image, err := cachefile.Combine(files, nil, from.describe)
	if err != nil {
		return err
	}
	return cachefile.Install(to, func(w io.Writer) error {
		_, err := io.Copy(w, image.Reader())
		return err
	}, nil, nil)
}
