package entries

import (
	"errors"
	"sync"
	"sync/atomic"

	"xpwc/internal/format"
)

// A Content identifies the content of an unpacked tensor by its stamp, or else by its digest. There may be a million.
type Content struct {
	Stamp  format.Digest // zero if there is none
	Origin *Origin
	Reader Reader

	once     sync.Once
	digested atomic.Pointer[digested]
}

// A Reader computes the digest of a tensor's content, which may read all of it. It is called once.
type Reader interface {
	ReadDigest() (format.Digest, error)
}

// An Origin is where the tensors of a session come from, most of them from one.
type Origin struct {
	Source format.Digest // of its name
	Name   string        // a part of it, for people

	NoStamp string // why its tensors have no stamp, a reason of package xpwc, or ""
	Watch   any    // reports changes in place; comparable; may be nil
}

type digested struct {
	digest format.Digest
	err    error
}

// errNoDigest: the goroutine that computed the digest ended.
var errNoDigest = errors.New("its digest was not computed: the function that computes it ended its goroutine")

// Digest returns the digest of the content, computing it the first time. It may be called from several goroutines.
func (c *Content) Digest() (format.Digest, error) {
	c.once.Do(func() {
		d := &digested{err: errNoDigest}
		defer c.digested.Store(d) // also if a function of the host's calls runtime.Goexit
		d.digest, d.err = c.Reader.ReadDigest()
	})
	d := c.digested.Load()
	return d.digest, d.err
}

// Computed returns the digest if it was computed.
func (c *Content) Computed() (d format.Digest, ok bool, err error) {
	if computed := c.digested.Load(); computed != nil {
		return computed.digest, true, computed.err
	}
	return format.Digest{}, false, nil
}

// Matches reports whether the tensors of two sessions may have the same content, and both sessions detect a change in
// place: their stamps are equal, or, without stamps, their Watches, and their digests as far as they are computed.
func (c *Content) Matches(o *Content) bool {
	if c == nil || o == nil {
		return c == o
	}
	if c.Stamp != o.Stamp || c.Stamp != (format.Digest{}) {
		return c.Stamp == o.Stamp
	}
	mine, ok, _ := c.Computed()
	theirs, alsoKnown, _ := o.Computed()
	return c.Origin.Source == o.Origin.Source && c.Origin.Watch == o.Origin.Watch &&
		(!ok || !alsoKnown || mine == theirs)
}

// comparable reports whether the content, which may be nil, has a stamp or a digest by now.
func (c *Content) comparable() bool {
	return c == nil || c.Stamp != (format.Digest{}) || c.digested.Load() != nil
}

// Contents are the kernel of an entry, and its bias if it has one.
type Contents struct{ Kernel, Bias *Content }

// Match reports whether both may be the same: see Content.Matches.
func (c Contents) Match(o Contents) bool {
	return c.Kernel != nil && o.Kernel != nil && c.Kernel.Matches(o.Kernel) && c.Bias.Matches(o.Bias)
}

// MayMatch is Match as far as can be known without reading the other's tensors.
func (c Contents) MayMatch(o Contents) bool {
	return c.Match(o) && o.Kernel.comparable() && o.Bias.comparable()
}

// Stamps returns the stamps, and whether each of the tensors has one.
func (c Contents) Stamps() (stamps format.Hashes, complete bool) {
	stamps.Kernel = c.Kernel.Stamp
	if c.Bias != nil {
		stamps.Bias = c.Bias.Stamp
	}
	return stamps, stamps.Kernel != format.Digest{} && (c.Bias == nil || stamps.Bias != format.Digest{})
}

// Digests returns the digests, if all of them were computed. The error is one of computing them.
func (c Contents) Digests() (digests format.Hashes, computed bool, err error) {
	digests.Kernel, computed, err = c.Kernel.Computed()
	if c.Bias != nil {
		d, computedBias, biasErr := c.Bias.Computed()
		digests.Bias, computed, err = d, computed && computedBias, errors.Join(err, biasErr)
	}
	return digests, computed, err
}

// MayDiffer reports whether the contents may differ from a record's: see Content.MayDiffer.
func (c Contents) MayDiffer(r *format.Record) bool {
	return c.Kernel.MayDiffer(r.Stamps.Kernel, r.Digests.Kernel) || c.Bias.MayDiffer(r.Stamps.Bias, r.Digests.Bias)
}

// MayDiffer reports whether the content may differ from a record's, by the stamp or, without one, by the digest.
func (c *Content) MayDiffer(stamp, digest format.Digest) bool {
	if c == nil {
		return false
	}
	if c.Stamp != (format.Digest{}) {
		return stamp != c.Stamp
	}
	d, ok, err := c.Computed()
	return !ok || err == nil && digest != d
}
