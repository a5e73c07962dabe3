// Package digest is the project's one hash. It identifies tensors' contents, payloads, indexes, packing identities and
// layouts.
package digest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/xxh3"
)

// A Digest is a 128-bit XXH3 hash, most significant byte first. It guards against accidents, not against an adversary
// who can choose the content. As text, also in JSON, it is 32 hexadecimal digits.
type Digest [16]byte

// Of returns the digest of b.
func Of(b []byte) Digest { return Digest(xxh3.Hash128(b).Bytes()) }

// OfStrings gives a fixed-size stand-in for text of any length and number; the lengths go in, so that ("ab", "c") and
// ("a", "bc") differ. No text at all is the zero digest.
func OfStrings(parts ...string) Digest {
	buf := make([]byte, 0, 512) // on the stack
	empty := true
	for _, p := range parts {
		empty = empty && p == ""
		buf = binary.LittleEndian.AppendUint64(buf, uint64(len(p)))
		buf = append(buf, p...)
	}
	if empty {
		return Digest{}
	}
	return Of(buf)
}

// Parse reads a digest from its 32 hexadecimal digits.
func Parse(s string) (Digest, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Digest{}) {
		return Digest{}, fmt.Errorf("%q: not %d hexadecimal digits", s, 2*len(Digest{}))
	}
	return Digest(b), nil
}

// String returns the digest in hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) (err error) {
	*d, err = Parse(string(text))
	return err
}

// A Hash computes the digest of all that is written to it. The zero value has been given no bytes.
type Hash struct{ h xxh3.Hasher }

// Write adds b. It never fails.
func (h *Hash) Write(b []byte) (int, error) { return h.h.Write(b) }

// Sum returns the digest of what was written.
func (h *Hash) Sum() Digest { return Digest(h.h.Sum128().Bytes()) }
