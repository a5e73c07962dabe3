package registry

import (
	"fmt"
	"strconv"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"xpwc/internal/digest"
)

const (
	// ArtifactType of the indexes and manifests (image-spec v1.1.1, artifacts-guidance.md).
	ArtifactType = "application/vnd.xpwc.cache.v1"
	// CacheMediaType is that of a manifest's one layer, a cache file (docs/format.md). The 2 is the media type's own;
	// the version of the file's format is an annotation.
	CacheMediaType = "application/vnd.xpwc.cache-file.v2"
	// ConfigMediaType is that of a manifest's config, whose content is "{}".
	ConfigMediaType = "application/vnd.xpwc.config.v1+json"
)

// Annotations (image-spec v1.1.1, annotations.md) of a manifest and of its descriptor in the index.
const (
	annotationLayout       = "vnd.xpwc.layout" // its fingerprint
	annotationDescription  = "vnd.xpwc.layout.description"
	annotationFormat       = "vnd.xpwc.format"
	annotationEntries      = "vnd.xpwc.entries"
	annotationPayloadBytes = "vnd.xpwc.payload-bytes"
	annotationFileBytes    = "vnd.xpwc.file-bytes"
)

// A Fingerprint is what one layout differs from any other by: the digest that an xpwc.Layout and a cachefile.Layout
// have. As text, also in JSON, it is 32 hexadecimal digits.
type Fingerprint = digest.Digest

// ParseFingerprint reads the 32 hexadecimal digits of a fingerprint.
func ParseFingerprint(s string) (Fingerprint, error) {
	f, err := digest.Parse(s)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("layout %w", err)
	}
	return f, nil
}

// A Layout is what a registry has for one way of packing.
type Layout struct {
	Fingerprint  Fingerprint `json:"layout"`
	Description  string      `json:"description"`   // for people: the CPU architecture, and what else the packer said
	Format       int         `json:"format"`        // version of the cache file's format
	Entries      int64       `json:"entries"`       // packed weights
	PayloadBytes int64       `json:"payload_bytes"` // their bytes
	FileBytes    int64       `json:"file_bytes"`    // of the cache file
	Manifest     string      `json:"manifest"`      // its digest, such as "sha256:…"
}

func (l Layout) annotations() map[string]string {
	return map[string]string{
		annotationLayout:       l.Fingerprint.String(),
		annotationDescription:  l.Description,
		annotationFormat:       strconv.Itoa(l.Format),
		annotationEntries:      strconv.FormatInt(l.Entries, 10),
		annotationPayloadBytes: strconv.FormatInt(l.PayloadBytes, 10),
		annotationFileBytes:    strconv.FormatInt(l.FileBytes, 10),
		// What tools that know nothing of packed weights call the file. (annotations.md,
		// org.opencontainers.image.title)
		ocispec.AnnotationTitle: l.Fingerprint.String() + ".xpwc",
	}
}

// layoutOf reads what a manifest's or its descriptor's annotations say. Whether that is true shows when the cache
// file is read.
func layoutOf(annotations map[string]string) (l Layout, err error) {
	if l.Fingerprint, err = ParseFingerprint(annotations[annotationLayout]); err != nil {
		return Layout{}, err
	}
	l.Description = annotations[annotationDescription]
	number := func(name string) int64 {
		n, parseErr := strconv.ParseInt(annotations[name], 10, 64)
		if err == nil && (parseErr != nil || n < 0) {
			err = fmt.Errorf("annotation %s: %q is no number", name, annotations[name])
		}
		return n
	}
	l.Entries = number(annotationEntries)
	l.PayloadBytes = number(annotationPayloadBytes)
	l.FileBytes = number(annotationFileBytes)
	l.Format = int(number(annotationFormat))
	return l, err
}
