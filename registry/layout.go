package registry

import (
	"fmt"
	"strconv"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/models/litert"
)

const (
	// ArtifactType of the indexes and manifests (image-spec v1.1.1, artifacts-guidance.md).
	ArtifactType = "application/vnd.xpwc.cache.v1"
	// CacheMediaType is that of a manifest's one layer, a cache file (docs/format.md). The 2 is the media type's own;
	// the version of the file's format is an annotation.
	CacheMediaType = "application/vnd.xpwc.cache-file.v2"
	// ConfigMediaType is that of a manifest's config, whose content is "{}".
	ConfigMediaType = "application/vnd.xpwc.config.v1+json"
	// LiteRTMediaType is that of a manifest's one layer if it is a file for LiteRT (docs/litert.md).
	LiteRTMediaType = "application/vnd.xpwc.litert-cache.v1"
)

// Annotations (image-spec v1.1.1, annotations.md) of a manifest and of its descriptor in the index.
// Names of others than the OCI are reverse domains; a package that has no domain is under dev.
const (
	annotationLayout       = "dev.xpwc.layout" // its fingerprint
	annotationDescription  = "dev.xpwc.layout.description"
	annotationFormat       = "dev.xpwc.format"
	annotationEntries      = "dev.xpwc.entries"
	annotationPayloadBytes = "dev.xpwc.payload-bytes"
	annotationFileBytes    = "dev.xpwc.file-bytes"
	// Of a file for LiteRT alone: LiteRT's version, and the SHA-256 of the model.
	annotationLiteRT = "dev.xpwc.litert"
	annotationModel  = "dev.xpwc.model"
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
	Fingerprint Fingerprint `json:"layout"`
	// Description is for people: the CPU architecture, a space, and the packer's other words.
	Description  string `json:"description"`
	Format       int    `json:"format_version"` // version of the cache file's format
	Entries      int64  `json:"entry_count"`    // packed weights
	PayloadBytes int64  `json:"payload_bytes"`  // their bytes
	FileBytes    int64  `json:"file_bytes"`     // of the cache file
	Manifest     string `json:"manifest"`       // its digest, such as "sha256:…"
	// LiteRT is the version of LiteRT that the file is for, and Model the SHA-256, in hexadecimal digits, of the model
	// that it was packed from. Both are empty for a cache file of xpwc.
	LiteRT string `json:"litert,omitempty"`
	Model  string `json:"model,omitempty"`
}

// platform is that of a layout's descriptor in an index (image-index.md), by which others choose. Packed weights are
// for every operating system, and so it names the one that images are for.
func (l Layout) platform() *ocispec.Platform {
	return &ocispec.Platform{Architecture: format.Architecture(l.Description), OS: "linux"}
}

func (l Layout) annotations() map[string]string {
	annotations := map[string]string{
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
	if l.LiteRT != "" {
		annotations[annotationLiteRT], annotations[annotationModel] = l.LiteRT, l.Model
		annotations[ocispec.AnnotationTitle] = l.Fingerprint.String() + ".litert_cache"
	}
	return annotations
}

// mediaType is that of the file.
func (l Layout) mediaType() string {
	if l.LiteRT != "" {
		return LiteRTMediaType
	}
	return CacheMediaType
}

// readable returns an error that matches ErrVersion if the file is of another version of its format.
func (l Layout) readable() error {
	version := format.Version
	if l.LiteRT != "" {
		version = litert.Version
	}
	if l.Format == version {
		return nil
	}
	return fmt.Errorf("layout %s: version %d, not %d: %w", l.Fingerprint, l.Format, version, ErrVersion)
}

// isNewer reports whether annotations are of a later version of the format, which may be others than today's.
func isNewer(annotations map[string]string) bool {
	n, err := strconv.Atoi(annotations[annotationFormat])
	return err == nil && n > format.Version
}

// layoutOf reads a manifest's or its descriptor's annotations. Whether that is true shows when the cache
// file is read.
func layoutOf(annotations map[string]string) (l Layout, err error) {
	if l.Fingerprint, err = ParseFingerprint(annotations[annotationLayout]); err != nil {
		return Layout{}, err
	}
	l.Description = annotations[annotationDescription]
	l.LiteRT, l.Model = annotations[annotationLiteRT], annotations[annotationModel]
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
