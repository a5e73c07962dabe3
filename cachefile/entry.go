package cachefile

import (
	"cmp"
	"errors"
	"io"
	"iter"
	"math"
	"time"

	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// An Entry is one packed payload and what it is found by. An entry of an ExecuTorch file has only Name, Seed (in
// version 2), Offset and Size; the rest is zero.
type Entry struct {
	// Name as ExecuTorch has it: the kernel's name directly followed by the bias' name.
	Name string `json:"name"`
	// Kernel and Bias are the names of the unpacked tensors. HasBias reports whether a named bias is part of the key.
	Kernel  string `json:"kernel,omitempty"`
	Bias    string `json:"bias,omitempty"`
	HasBias bool   `json:"-"`
	// Layout is the fingerprint of the layout that it was packed for.
	Layout Digest `json:"layout,omitzero"`
	// Seed and FingerprintID are fields of XNNPACK's look-up key (xnnpack.h); FingerprintID is 0 where XNNPACK has
	// none.
	Seed          uint32 `json:"seed"`
	FingerprintID uint32 `json:"fingerprint_id,omitempty"`
	// Packing is the digest of the packing identity that the host gave (xpwc.PackedAs), Family its operator and
	// datatypes, and LeastSize the least size in bytes of such a payload. They are zero if the host gave none;
	// LeastSize is also 0 where it is not known.
	Packing   Digest         `json:"packing,omitzero"`
	Family    packing.Family `json:"-"`
	LeastSize int64          `json:"least_bytes,omitempty"`
	// Variant: there are several payloads under this key, and only packing finds which one is meant. Tied: one model
	// has several operators with this key and this payload.
	Variant bool `json:"variant,omitempty"`
	Tied    bool `json:"tied,omitempty"`

	// Offset and Size locate the payload in the file, in bytes. Several entries may have the same payload.
	Offset int64 `json:"offset"`
	Size   int64 `json:"bytes"`
	// Sum is the payload's checksum.
	Sum Digest `json:"sum,omitzero"`

	// Source is the digest of where the kernel comes from; the stamps and digests are of the content of kernel and bias
	// (xpwc.Identity). What was not known is zero.
	Source       Digest `json:"source,omitzero"`
	KernelStamp  Digest `json:"kernel_stamp,omitzero"`
	KernelDigest Digest `json:"kernel_digest,omitzero"`
	BiasStamp    Digest `json:"bias_stamp,omitzero"`
	BiasDigest   Digest `json:"bias_digest,omitzero"`
	// SourceName is the name of the model's file that the kernel is from, without its directory; "" where it is not
	// known. It is for people: who can write the cache chooses it. It is printable, and short.
	SourceName string `json:"model,omitempty"`

	// PackedAt is the time of packing, UsedAt the last use by a process that wrote to the file, both to the second. A
	// damaged file may have years that JSON has not.
	PackedAt time.Time `json:"-"`
	UsedAt   time.Time `json:"-"`

	record format.Record // without its offset; zero in an ExecuTorch file
}

// SameKey reports whether two entries answer the same look-ups, if the seed and the content they were packed from are
// left aside.
func (e *Entry) SameKey(o *Entry) bool { return e.record.Key == o.record.Key }

// SameContent reports whether a program that has the content which one of two entries of a key was packed from would
// take it for that of the other too: by a stamp, or else by a digest.
func (e *Entry) SameContent(o *Entry) bool {
	equalContent := func(stamp, digest, otherStamp, otherDigest Digest) bool {
		return stamp != (Digest{}) && stamp == otherStamp || digest == otherDigest
	}
	return equalContent(e.KernelStamp, e.KernelDigest, o.KernelStamp, o.KernelDigest) &&
		(!e.HasBias || equalContent(e.BiasStamp, e.BiasDigest, o.BiasStamp, o.BiasDigest))
}

// Sealed returns the digest of the model that the entry was sealed for ([WriteOptions.Seal]), and false if it was not.
func (e *Entry) Sealed() (model Digest, ok bool) { return e.record.Sealed() }

func entryOf(r format.Record) Entry {
	offset := int64(r.Offset)
	r.Offset = 0
	return Entry{
		record:        r,
		Name:          r.Kernel + r.Bias,
		Kernel:        r.Kernel,
		Bias:          r.Bias,
		HasBias:       r.HasBias,
		Layout:        r.Layout,
		Seed:          r.Seed,
		FingerprintID: r.FingerprintID,
		Packing:       r.Packing,
		Family:        r.Family,
		LeastSize:     int64(min(r.LeastSize, math.MaxInt64)),
		Variant:       r.Flags&format.Variant != 0,
		Tied:          r.Flags&format.Tied != 0,
		Offset:        offset,
		Size:          int64(r.Size),
		Sum:           r.Sum,
		Source:        r.Source,
		SourceName:    r.SourceName,
		KernelStamp:   r.Stamps.Kernel,
		KernelDigest:  r.Digests.Kernel,
		BiasStamp:     r.Stamps.Bias,
		BiasDigest:    r.Digests.Bias,
		PackedAt:      time.Unix(r.PackedAt, 0).UTC(),
		UsedAt:        time.Unix(r.UsedAt, 0).UTC(),
	}
}

func byOffset(a, b Entry) int { return cmp.Compare(a.Offset, b.Offset) }

// Entries yields the entries in the order of their payloads in the file. For an entry whose record is damaged it
// yields an error, which matches ErrDamaged, and continues. Of an ExecuTorch file they are what its index lists.
func (f *File) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range f.foreign {
			if !yield(e, nil) {
				return
			}
		}
		if f.index == nil {
			return
		}
		for i := range f.index.Len() {
			var e Entry
			r, err := f.index.Record(i)
			if err == nil {
				e = entryOf(r)
			} else {
				err = f.problem(f.slot.IndexOffset+f.index.RecordOffset(i), "record %d: %v", i, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Payload reads the packed bytes of an entry of this file, as long as the file is open. They are not checked.
func (f *File) Payload(e Entry) *io.SectionReader { return io.NewSectionReader(f.r, e.Offset, e.Size) }

// Check reads a payload and compares its checksum. The error matches ErrDamaged if that is another one, or if the
// payload is too short, so that XNNPACK would read past its end. The entries of ExecuTorch have neither checksum nor
// least size, and are only read.
func (f *File) Check(e Entry) error {
	if err := f.checkSize(e); err != nil {
		return err
	}
	_, err := f.sumOf(e)
	return err
}

// sumOf reads a payload.
func (f *File) sumOf(e Entry) (Digest, error) {
	payload := f.checked(e)
	block := make([]byte, max(1, min(e.Size, mostBlock)))
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, payload, block)
	return payload.sum.Sum(), err
}

// mostBlock is how many bytes of payloads are read at a time.
const mostBlock = 1 << 20

// A checked payload is compared with its checksum while it is read: the last read has the error.
type checked struct {
	io.Reader
	entry Entry
	in    *File
	n     int64
	sum   digest.Hash
}

func (f *File) checked(e Entry) *checked { return &checked{Reader: f.Payload(e), entry: e, in: f} }

func (c *checked) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	_, _ = c.sum.Write(b[:n]) // never fails
	switch {
	case !errors.Is(err, io.EOF):
		return n, err
	case c.n < c.entry.Size:
		err = c.in.problemOf(&c.entry, "the file ends after %d of the payload's %d bytes", c.n, c.entry.Size)
	case c.in.format == Native && c.sum.Sum() != c.entry.Sum:
		err = c.in.problemOf(&c.entry, "the checksum of the payload's %d bytes is wrong", c.entry.Size)
	}
	return n, err
}

// checkSize returns an error that matches ErrDamaged if a payload is too short for its entry.
func (f *File) checkSize(e Entry) error {
	if e.Size >= e.LeastSize {
		return nil
	}
	return f.problemOf(&e, "the payload is too short: it has %d bytes, its kernel takes %d at least",
		e.Size, e.LeastSize)
}
