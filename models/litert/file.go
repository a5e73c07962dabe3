// Package litert reads the cache files of LiteRT (TensorFlow Lite): those in which its XNNPACK delegate has packed
// weights, and that xpwc pack --for litert writes. It needs neither XNNPACK nor LiteRT. What is in such a file is in
// docs/litert.md. Package stock, below it, has LiteRT's own code write them.
package litert

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/fd"
	"xpwc/internal/flatbuf"
)

// Errors that callers test for with errors.Is.
var (
	// ErrNotCache: the file is not a cache file of LiteRT.
	ErrNotCache = errors.New("not a cache file of LiteRT")
	// ErrVersion: it is one of a version that this package does not know, as LiteRT itself refuses other versions.
	ErrVersion = errors.New("a cache file of LiteRT of another version; pack it again")
	// ErrDamaged: it is one that LiteRT cannot read, or would read wrongly.
	ErrDamaged = errors.New("a damaged cache file of LiteRT; pack it again")
)

// NoBuffer is the Kernel or the Bias of an entry that has none.
const NoBuffer = math.MaxUint64

// Version is the version of the files that this package knows, as it is in their header.
const Version = 4

// StaleAt is the offset of the byte in the header that marks a file as stale.
const StaleAt = 24

const (
	headerSize = 32
	alignment  = 128 // of payloads
	// mostList is how many bytes of a file are read as its list at most; one of ours has some 70 an entry, and none can
	// have fewer than leastEntry, unless entries share theirs.
	mostList   = 32 << 20
	leastEntry = 32
)

// A Key is what LiteRT finds an entry by. It compares nothing else: neither the model nor the content.
type Key struct {
	Seed   uint32 // XNNPACK's
	Kernel uint64 // index of the model's buffer, or None
	Bias   uint64 // likewise
}

// Name names the model's buffers that the entry was packed from.
func (k Key) Name() string {
	if k.Bias == NoBuffer {
		return fmt.Sprintf("buffer %d", k.Kernel)
	}
	return fmt.Sprintf("buffer %d with %d", k.Kernel, k.Bias)
}

// An Entry is one packed payload with its key.
type Entry struct {
	Key
	Offset int64 // of the payload in the file, in bytes
	Size   int64 // likewise
}

// A File is what a cache file has besides the payloads.
type File struct {
	// Stale is LiteRT's mark of a file that lacked something: LiteRT writes such a file anew.
	Stale bool
	// Fingerprints are XNNPACK's, of the ways in which the payloads were packed. LiteRT writes a file anew if its
	// XNNPACK has others on the CPU at hand.
	Fingerprints []uint64
	// Entries in the order of the file's list, which is that of packing.
	Entries []Entry
	// ListBytes is the size of the list, which ends the file, and FileBytes that of the file.
	ListBytes, FileBytes int64
}

// HeaderBytes returns the size of the header, which begins the file.
func (f *File) HeaderBytes() int64 { return headerSize }

// PayloadBytes returns the size of all payloads.
func (f *File) PayloadBytes() (sum int64) {
	for _, e := range f.Entries {
		sum += e.Size
	}
	return sum
}

// Open reads the file at a path. The errors are as of Read, with the path.
func Open(path string) (*File, error) {
	file, info, err := fd.OpenRegular(path)
	if errors.Is(err, fd.ErrNotRegular) {
		return nil, fmt.Errorf("%s: not a regular file: %w", path, ErrNotCache)
	}
	if err != nil {
		return nil, err
	}
	f, err := Read(file, info.Size())
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// IsCache reports whether the file at a path begins as LiteRT's files do, damaged or not. It is false if the file
// cannot be read.
func IsCache(path string) bool {
	_, err := Open(path)
	return err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion)
}

// Read reads the header and the list of a file of that size. The error matches ErrNotCache, ErrVersion or ErrDamaged,
// or is one of reading. No payload is read: LiteRT's files have no checksums.
func Read(r io.ReaderAt, size int64) (*File, error) {
	var header [headerSize]byte
	if _, err := r.ReadAt(header[:min(size, headerSize)], 0); err != nil && err != io.EOF {
		return nil, err
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(header[8*i:]) }
	version, offset, length := field(0), field(1), field(2)
	// The file has no mark of its own but these numbers, which no other file has but by chance.
	const mostVersion = 1 << 16
	inside := offset >= headerSize && offset <= uint64(size) && length <= uint64(size)-offset
	cut := version == Version && offset >= alignment && offset%alignment == 0
	switch {
	case size < headerSize || version > mostVersion || !inside && !cut:
		return nil, ErrNotCache
	case version == 0:
		return nil, fmt.Errorf("%w: it is being written, or who wrote it was ended", ErrDamaged)
	case version != Version:
		return nil, fmt.Errorf("%w: %d, and %d is known", ErrVersion, version, Version)
	case !inside || length != uint64(size)-offset || length == 0 || length > mostList:
		return nil, fmt.Errorf("%w: its list of %d bytes at byte %d does not end with its %d bytes", ErrDamaged, length,
			offset, size)
	}
	list := make([]byte, length)
	if _, err := r.ReadAt(list, int64(offset)); err != nil {
		return nil, err
	}
	f := &File{Stale: header[StaleAt] != 0, ListBytes: int64(length), FileBytes: size}
	if err := fault.Try(func() { f.parse(list, offset) }); err != nil {
		return nil, err
	}
	return f, f.check(int64(offset))
}

// parse reads the list, before which the payloads end.
func (f *File) parse(list []byte, end uint64) {
	root := flatbuf.Root(list, "", ErrDamaged)
	f.Fingerprints = root.Uint64s(0)
	buffers, base := root.Tables(1), root.Uint64(2)
	if n := buffers.Len(); n > len(list)/leastEntry {
		fault.Because(ErrDamaged, "its list of %d bytes has not room for %d entries", len(list), n)
	}
	for i, b := range buffers.All() {
		seed, offset, size := b.Uint64(0), b.Uint64(3), b.Uint64(4)
		if seed > math.MaxUint32 {
			fault.Because(ErrDamaged, "entry %d has seed %d", i, seed)
		}
		if base > end || offset > end-base || size > end-base-offset {
			fault.Because(ErrDamaged, "the payload of entry %d, of %d bytes at %d after byte %d, does not lie before "+
				"the list at byte %d", i, size, offset, base, end)
		}
		f.Entries = append(f.Entries, Entry{Key{uint32(seed), b.Uint64(1), b.Uint64(2)},
			int64(base + offset), int64(size)})
	}
}

// check finds what LiteRT would not: payloads that overlap or are not aligned, and keys that are there twice.
func (f *File) check(end int64) error {
	seen := map[Key]bool{}
	for _, e := range f.Entries {
		if seen[e.Key] {
			return fmt.Errorf("%w: %s is there twice with seed %08x", ErrDamaged, e.Name(), e.Seed)
		}
		seen[e.Key] = true
		if e.Offset%alignment != 0 || e.Offset < headerSize {
			return fmt.Errorf("%w: the payload of %s begins at byte %d", ErrDamaged, e.Name(), e.Offset)
		}
	}
	byOffset := slices.SortedFunc(slices.Values(f.Entries), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	for i, e := range byOffset {
		if i > 0 && byOffset[i-1].Offset+byOffset[i-1].Size > e.Offset {
			return fmt.Errorf("%w: the payloads of %s and %s overlap at byte %d", ErrDamaged, byOffset[i-1].Name(),
				e.Name(), e.Offset)
		}
	}
	return nil
}

// Differ returns the first byte at which two files differ, and -1 if they are equal. Where one is the other's
// beginning, that is its size.
func Differ(a, b io.Reader) (offset int64, err error) {
	const piece = 1 << 20
	x, y := make([]byte, piece), make([]byte, piece)
	for {
		n, err := fill(a, x)
		m, err2 := fill(b, y)
		if err := errors.Join(err, err2); err != nil {
			return 0, err
		}
		for i := range min(n, m) {
			if x[i] != y[i] {
				return offset + int64(i), nil
			}
		}
		switch {
		case n != m:
			return offset + int64(min(n, m)), nil
		case n < piece:
			return -1, nil
		}
		offset += piece
	}
}

// fill reads until b is full or there is no more.
func fill(r io.Reader, b []byte) (int, error) {
	n, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}
