package registry

import (
	"errors"

	"xpwc/internal/format"
)

// Errors that callers test for with errors.Is. What is returned wraps them with the reference or path concerned.
var (
	// ErrNoLayout: the registry has nothing for that layout. The error lists what it has.
	ErrNoLayout = errors.New("no packed weights for this layout")
	// ErrNotFound: there is no such repository, tag or digest in the registry, or it is hidden from this user.
	ErrNotFound = errors.New("not found in the registry, or hidden; check the name, the tag and the login")
	// ErrUnauthorized: the registry wants credentials, or other ones.
	ErrUnauthorized = errors.New("the registry does not allow it; docker login stores credentials")
	// ErrOtherArtifact: the reference leads to something else than packed weights. It is never replaced.
	ErrOtherArtifact = errors.New("not packed weights")
	// ErrDamaged: the content does not match its digests, or the checksums in the cache file. Nothing
	// was written. It is also that of packages xpwc and cachefile.
	ErrDamaged = format.ErrDamaged
	// ErrVersion: the registry has the layout in another version of the cache file's format alone. It is also that of
	// packages xpwc and cachefile.
	ErrVersion = format.ErrVersion
	// ErrBadFile: the file to push is no cache file, is damaged, or has no entries of a known layout.
	ErrBadFile = errors.New("not pushed")
	// ErrConcurrent: other pushes to the tag came in between each time. Pushing again uploads only what is missing.
	ErrConcurrent = errors.New("others keep pushing to this tag; push again")
	// ErrSilent: the registry did not answer, or stopped sending or taking. See Options.Silence.
	ErrSilent = errors.New("the registry is silent; try again, or give it more time")
	// ErrOtherModel: the tag has LiteRT's files of another model. LiteRT does not compare models, and a node would get
	// that one's answers.
	ErrOtherModel = errors.New("the tag has LiteRT's files of another model; push to another tag")
	// ErrTooLarge: the content is larger than Options.MaxBytes, or than the free space.
	ErrTooLarge = errors.New("too large")
	// ErrDigestReference: the reference has a digest, which only what exists can have; pushing needs a tag.
	ErrDigestReference = errors.New("a digest cannot be pushed to; name a tag")
)

// damage is an error in the registry's content. It matches ErrDamaged.
type damage struct{ err error }

func (d damage) Error() string {
	return "damaged in the registry or on the way; nothing was written: " + d.err.Error()
}

func (d damage) Unwrap() []error { return []error{ErrDamaged, d.err} }
