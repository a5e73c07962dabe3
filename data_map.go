package xpwc

import (
	"errors"
	"fmt"

	"xpwc/internal/digest"
)

// A DataMap gives a model's unpacked tensors by name, as ExecuTorch's NamedDataMap does. A [Session] asks it at most
// once for each name. Implementations must be safe for use by several sessions at the same time.
type DataMap interface {
	// Tensor returns the tensor of that name. For a name it does not know it returns an error that matches
	// [ErrUnknownTensor].
	Tensor(name string) (Tensor, error)
}

// ErrUnknownTensor: the data map has no tensor of that name.
var ErrUnknownTensor = errors.New("unknown tensor")

// A Tensor is an unpacked tensor as a [DataMap] gives it. Its content is either there (Data) or computed when packing
// is about to read it (Size and Fill).
type Tensor struct {
	// Data is the content, in memory that C code may keep pointers into: a file mapping or C memory, never the Go heap.
	// It must stay readable and unchanged until Release is called, or, without Release, until Session.Close.
	Data []byte

	// Size and Fill are for content that must be computed first: widened, decompressed, copied out of the Go heap.
	// Fill writes all Size bytes of dst, memory the session owns. It is called at most once in a session, unless Refill
	// is set, from the thread that creates the runtime, and not at all when everything packed from the tensor is found
	// in the cache.
	Size int
	Fill func(dst []byte) error

	// Refill says that Fill may be called again, and with memory that has other bytes in it. Then large kernels are
	// computed one after the other in the same memory: one is given up when it was packed, and computed again if it is
	// packed or loaded once more. Identity.Digest must not be nil, or Refill has no effect.
	Refill bool

	// Identity distinguishes this content from any other that may come under the same name.
	Identity Identity

	// Evict, if not nil, is called when the content was read, by packing or for its digest, and will hardly be read
	// again: a mapped source gives its pages back here, so that only one tensor's at a time are in memory. It must
	// stay readable. It may be called from any goroutine, and again if it is read again, but not for tensors loaded
	// with Retain.
	Evict func()

	// Release, if not nil, is called once, when the session needs Data no more: by Session.Finalize if packing
	// consumed it, by Session.Close otherwise.
	Release func()
}

// An Identity changes whenever a tensor's content does. Packed weights are reused only for the content they were packed
// from: if the stamps are equal, or else if the digests are.
type Identity struct {
	// Source names where the tensor comes from, for instance the absolute path of the model's file. Packed weights of
	// the same name and source but other content are superseded; those of another source are kept beside them. A file
	// has its digest and, for people, the last part of it.
	Source string

	// Stamp is cheap to obtain and changes whenever the content does: for a file, its device, inode, size and times of
	// modification and of change with the tensor's position in it. When it is empty, or differs from the stored one,
	// digests are compared. It must be empty where that is not certain, as on file systems that do not make their
	// change times themselves (images, FAT, network file systems), for a file that was changed within the last tick of
	// the file system's clock, and for one that somebody may be writing to: the times show when a write begins, and not
	// when it ends. It holds for its Source alone, unless it begins with FileStamp.
	Stamp string

	// NoStamp is why Stamp is empty, if the data map knows it: one of the reasons for reading.
	NoStamp Reason

	// Digest returns the digest of whatever determines the content, for instance of the compressed bytes. When it is
	// nil, DigestOf(content) is used, which reads (and if need be computes) all of it. It may be called from another
	// goroutine while the runtime is created.
	Digest func() (Digest, error)

	// DigestReadsNothing: Digest returns what is known already. [Stats] does not count it as reading.
	DigestReadsNothing bool

	// Watch, if not nil, reports changes of what the tensor comes from. All tensors of one file have the same.
	Watch Watch
}

// FileStamp begins an [Identity.Stamp] that names the file, by device and inode, and the tensor's position in it. Such
// a stamp holds under every path of the file: it stays when a directory is renamed, and through a symbolic link.
const FileStamp = "file "

// A Watch reports whether what tensors come from, a file for instance, was changed in place. Without one, a tensor that
// is overwritten while it is packed may be stored as what it was not. It must be comparable, as a pointer is: a
// session asks each Watch once when it first loads a tensor of it, and once more in Session.Finalize if it packed
// something, or loaded a tensor of it without a stamp.
type Watch interface {
	// Changed reports whether the content may have changed since the tensors were given. After it has reported that it
	// did not, every later change must show, also one by a write that had begun before: where times are too coarse for
	// that, it waits, and where somebody may be writing, it compares the content. An error is taken for a change. It
	// must not use the cache: locks are held.
	Changed() (bool, error)
}

// A Digest is a 128-bit XXH3 hash, most significant byte first: of a tensor's content, or of what XNNPACK packs, which
// is a layout's fingerprint. It guards against accidents, not against an adversary who can choose the content of a
// model. As text, also in JSON, it is 32 hexadecimal digits.
type Digest = digest.Digest

// DigestOf returns the digest of b: its XXH3-128 hash, most significant byte first.
func DigestOf(b []byte) Digest {
	return digest.Of(b)
}

// MapOf returns a DataMap of tensors in ordinary Go memory. A session copies a tensor into memory of its own before
// XNNPACK sees it, so the slices may be garbage-collected or changed once the session is closed, but not before.
// Tensors have no stamp: their digests are compared each time.
func MapOf(tensors map[string][]byte) DataMap { return goMap(tensors) }

type goMap map[string][]byte

func (m goMap) Tensor(name string) (Tensor, error) {
	content, ok := m[name]
	if !ok {
		return Tensor{}, fmt.Errorf("tensor %q: %w", name, ErrUnknownTensor)
	}
	return Tensor{
		Size: len(content),
		Fill: func(dst []byte) error { copy(dst, content); return nil },
		Identity: Identity{
			Digest: func() (Digest, error) { return DigestOf(content), nil },
		},
	}, nil
}
