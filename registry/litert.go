package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"

	"xpwc/internal/fd"
	"xpwc/models/litert"
)

// A LiteRTFile is a file for LiteRT, with the facts that it lacks.
type LiteRTFile struct {
	Path   string
	SHA256 string        // of the content that is to be pushed, in hexadecimal digits
	For    litert.Target // what it was packed for
	Model  string        // the SHA-256 of the .tflite that it was packed from, likewise
}

// PushLiteRT is Push for a file for LiteRT, which is a layout of its own. It must not change meanwhile. A tag can have
// files of xpwc too, and files for LiteRT of one model only.
//
// Errors: as of Push; ErrBadFile also for a file that has other content than recorded, or that LiteRT would write
// anew; ErrOtherModel.
func PushLiteRT(ctx context.Context, ref string, file LiteRTFile, o *Options) (*Pushed, error) {
	return pushParts(ctx, ref, o, func() (parts []*part, closeFiles func(), err error) {
		f, info, err := fd.OpenRegular(file.Path)
		if err != nil {
			return nil, func() {}, err
		}
		p, err := newLiteRTPart(f, info.Size(), file)
		if err != nil {
			err = fmt.Errorf("%s: %w", file.Path, err)
		}
		return []*part{p}, func() { _ = f.Close() }, err // read-only
	})
}

func newLiteRTPart(f *os.File, size int64, file LiteRTFile) (*part, error) {
	read, err := readLiteRT(f, size)
	if err != nil {
		return nil, err
	}
	p := &part{content: func() io.Reader { return io.NewSectionReader(f, 0, size) }, layout: Layout{
		Fingerprint:  file.For.Layout(),
		Description:  file.For.String(),
		Format:       litert.Version,
		Entries:      int64(len(read.Entries)),
		PayloadBytes: read.PayloadBytes(),
		FileBytes:    size,
		LiteRT:       file.For.Version,
		Model:        file.Model,
	}}
	sum, err := digest.Canonical.FromReader(p.content())
	if err == nil && sum.Encoded() != file.SHA256 {
		err = errors.New("it was changed by another program meanwhile; try again")
	}
	if err != nil {
		return nil, err
	}
	return p, p.begin(sum)
}

// readLiteRT reads a file for LiteRT of which LiteRT uses all.
func readLiteRT(f io.ReaderAt, size int64) (*litert.File, error) {
	read, err := litert.Read(f, size)
	if err == nil && read.Stale {
		err = fmt.Errorf("%w: LiteRT has marked it as stale", litert.ErrDamaged)
	}
	return read, err
}

// checkModel returns an error if the tag has LiteRT's files of another model than the pushed ones.
func (p *push) checkModel(current *listing) error {
	for _, part := range p.parts {
		for _, l := range current.layouts {
			if part.layout.LiteRT != "" && l.LiteRT != "" && l.Model != part.layout.Model {
				return fmt.Errorf("%w: its SHA-256 is %q, and here it is %s", ErrOtherModel, l.Model, part.layout.Model)
			}
		}
	}
	return nil
}

// PullLiteRT writes the file that ref has for a target into a file, which is empty and open for reading and writing.
// The digests are checked while reading, and then that it is a file of which LiteRT uses all. It stays the caller's,
// who flushes it, gives it no permission to be written to, compares Layout.Model with the model, and throws it away if
// there was an error. Nothing is written if the file Options.Have has the same content.
//
// Errors: ErrNoLayout if there is none for the target, and errors of Pull.
func PullLiteRT(ctx context.Context, ref string, target litert.Target, dst *os.File, o *Options) (*Pulled, error) {
	pulled, err := pull(ctx, ref, target.Layout(), target.Version, dst, o)
	if err != nil {
		err = fmt.Errorf("for %s: %w", target, err)
	}
	return pulled, err
}

// copyLiteRT writes the layout's file, and checks it against the listing.
func (p *download) copyLiteRT(ctx context.Context) error {
	if err := p.copy(ctx, p.dst); err != nil {
		return err
	}
	read, err := readLiteRT(p.dst, p.file.Size)
	if err == nil && (int64(len(read.Entries)) != p.listed.Entries || read.PayloadBytes() != p.listed.PayloadBytes) {
		err = fmt.Errorf("it is said to have %d entries with %d bytes, and has %d with %d", p.listed.Entries,
			p.listed.PayloadBytes, len(read.Entries), read.PayloadBytes())
	}
	if err != nil {
		return damage{fmt.Errorf("layout %s: %w", p.listed.Fingerprint, err)}
	}
	return nil
}
