package cachefile

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"io"
	"os"
	"slices"

	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/output"
)

// An Image is a file that is laid out and not written. Its payloads are read from the files it was made of, which must
// stay open while it is read.
type Image struct {
	// Layout of all entries of an image that Combine has made, as the files describe it.
	Layout Layout
	// FileBytes is the size of the whole file.
	FileBytes int64

	parts    []func() io.Reader
	payloads int64 // bytes of all payloads
}

// A source is an entry that an image has, and the file that its payload is read from.
type source struct {
	Entry
	file *File
}

// Combine lays out a native file of all entries that native files have of a layout. The same entries, of models' files
// with the same names, give the same bytes, whoever packed them, when and where. For that it omits what is valid only
// on the machine that packed: the source and the stamps of its tensors, the times, the evidence, and all but the
// architecture of the layout's description. (A stamp is no evidence elsewhere: two machines of one image have the same
// devices, inodes and times for different files. The first process that uses such an entry compares digests, once, and
// notes source and stamps of its own. Sealed entries keep theirs, and the names of models' files.) Entries are in the
// order of their keys, each once, and equal payloads are there once. Payloads that differ under all that a look-up
// knows become variants. The generation is 1, and in place of a random identity the file has the digest of its index,
// and so of all payloads' checksums.
//
// Every payload is compared with its checksum, also when it is read. Errors: ErrDamaged, ErrForeign for a file that
// ExecuTorch wrote, ErrEmpty if there is no entry.
func Combine(files []*File, layout Digest) (*Image, error) {
	im := &Image{Layout: Layout{Fingerprint: layout}}
	var sources []source
	for _, f := range files {
		if err := f.convertible(Native); err != nil {
			return nil, err
		}
		for e, err := range f.Entries() {
			if err != nil {
				return nil, err
			}
			if e.Layout != layout {
				continue
			}
			if err := f.Check(e); err != nil {
				return nil, err
			}
			sources = append(sources, portable(f, e))
		}
		if f.index == nil {
			continue
		}
		for _, l := range f.index.Layouts() {
			if l.Fingerprint == layout {
				im.Layout.Description = l.Description
			}
		}
	}
	if len(sources) == 0 {
		return nil, ErrEmpty
	}
	sources = inOrder(sources)
	layouts := []format.Layout{{Fingerprint: layout, Description: format.Architecture(im.Layout.Description)}}
	err := im.native(sources, layouts, &WriteOptions{}, func(index []byte) [16]byte { return digest.Of(index) })
	im.Layout.Entries, im.Layout.PayloadBytes = len(sources), im.payloads
	return im, err
}

// portable returns an entry of a file without the fields that are valid only on the machine that packed it.
func portable(f *File, e Entry) source {
	r := &e.record
	r.PackedAt, r.UsedAt = 0, 0
	if _, sealed := r.Sealed(); !sealed {
		r.Source, r.Stamps, r.Copies = Digest{}, format.Hashes{}, ""
	}
	return source{e, f}
}

// inOrder sorts entries by all fields that can differ except the flags, which it merges: an observation of any packer
// holds.
func inOrder(entries []source) []source {
	slices.SortStableFunc(entries, func(a, b source) int { return compare(&a.record, &b.record) })
	once := entries[:0]
	for _, e := range entries {
		if n := len(once); n > 0 && compare(&once[n-1].record, &e.record) == 0 {
			rec := &once[n-1].record
			rec.Flags |= e.record.Flags
			if name := e.record.SourceName; rec.SourceName == "" || name != "" && name < rec.SourceName {
				rec.SourceName = name
			}
			continue
		}
		once = append(once, e)
	}
	// Hosts that do not give scales pack other bytes of the same content. A cache serves the first one in its file,
	// which may be another host's in a file from other machines.
	for i := 1; i < len(once); i++ {
		if a, b := &once[i-1].record, &once[i].record; compareKeys(a, b) == 0 {
			a.Flags, b.Flags = a.Flags|format.Variant, b.Flags|format.Variant
		}
	}
	return once
}

func compare(a, b *format.Record) int {
	return cmp.Or(compareKeys(a, b), cmp.Compare(a.Size, b.Size), byBytes(a.Sum, b.Sum))
}

// compareKeys compares all that a look-up knows.
func compareKeys(a, b *format.Record) int {
	return cmp.Or(
		byBytes(a.Layout, b.Layout),
		cmp.Compare(a.Kernel, b.Kernel),
		cmp.Compare(a.Bias, b.Bias),
		cmp.Compare(biases(a), biases(b)),
		cmp.Compare(a.FingerprintID, b.FingerprintID),
		byBytes(a.Packing, b.Packing),
		cmp.Compare(a.Seed, b.Seed),
		byBytes(a.Digests.Kernel, b.Digests.Kernel),
		byBytes(a.Digests.Bias, b.Digests.Bias),
	)
}

func biases(r *format.Record) int {
	if r.HasBias {
		return 1
	}
	return 0
}

func byBytes(a, b Digest) int { return bytes.Compare(a[:], b[:]) }

// native makes the image a native file of one generation. The identity may be that of its index.
func (im *Image) native(entries []source, layouts []format.Layout, o *WriteOptions,
	identity func(index []byte) [16]byte) error {
	end, err := im.arrange(format.HeaderSize, entries)
	if err != nil {
		return err
	}
	records := make([]format.Record, len(entries))
	for i, e := range entries {
		records[i] = e.record
		records[i].Offset = uint64(e.Offset)
		if o.Seal != nil {
			var programs []Digest
			if o.Programs != nil {
				programs = o.Programs(e.Entry)
			}
			records[i].Seal(*o.Seal, programs...)
		}
	}
	slot, block, err := format.EncodeGeneration(1, end, layouts, records)
	if err != nil {
		return err
	}
	im.pad(slot.IndexOffset - end)
	im.add(block)
	header := headerOf(identity(block[:slot.IndexSize]), slot)
	im.parts = slices.Insert(im.parts, 0, inMemory(header))
	im.FileBytes = int64(slot.End)
	return nil
}

// foreign makes the image an ExecuTorch's file.
func (im *Image) foreign(entries []source, text string) error {
	end, err := im.arrange(0, entries)
	if err != nil {
		return err
	}
	trailer := make([]format.TrailerEntry, len(entries))
	for i, e := range entries {
		trailer[i] = format.TrailerEntry{Name: e.Name, Offset: uint64(e.Offset), Size: uint64(e.Size), Seed: e.Seed}
	}
	note := format.EncodeNote([]byte(text))
	list := format.EncodeTrailer(trailer, end+uint64(len(note)))
	im.add(note)
	im.add(list)
	im.FileBytes = int64(end) + int64(len(note)+len(list))
	return nil
}

// arrange lays out the payloads of entries from an offset of the file on, each aligned, and sets the entries' offsets.
// It returns the end of the last one. Equal payloads are stored once, unless they have one key: the entries of a key
// are distinguished by their offsets.
func (im *Image) arrange(start uint64, entries []source) (end uint64, err error) {
	type payload struct {
		sum          Digest
		size, offset int64 // the offset in a file that has no sums
	}
	type place struct {
		key    format.Key
		name   string
		offset int64
	}
	stored, used := map[payload]source{}, map[place]bool{}
	end = start
	for i := range entries {
		e := &entries[i]
		p := payload{e.Sum, e.Size, 0}
		if e.file.format != Native {
			p.offset = e.Offset
		}
		dup, ok := stored[p]
		switch {
		case !ok || used[place{e.record.Key, e.Name, dup.Offset}]:
			copied := *e
			offset := format.Align(end)
			im.pad(offset - end)
			im.parts = append(im.parts, func() io.Reader { return copied.file.checked(copied.Entry) })
			im.payloads += e.Size
			end = offset + uint64(e.Size)
			e.Offset = int64(offset)
			stored[p] = *e
		default:
			if err := e.file.Check(e.Entry); err != nil { // it is not taken for its sound equal
				return 0, err
			}
			e.Offset = dup.Offset
		}
		used[place{e.record.Key, e.Name, e.Offset}] = true
	}
	return end, nil
}

func (im *Image) pad(n uint64) { im.add(make([]byte, n)) }

func (im *Image) add(b []byte) { im.parts = append(im.parts, inMemory(b)) }

func inMemory(b []byte) func() io.Reader { return func() io.Reader { return bytes.NewReader(b) } }

// newID returns a random identity.
func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return id
}

// headerOf is the header block of a file with one generation.
func headerOf(id [16]byte, slot format.Slot) []byte {
	b := format.NewHeader(id)
	encoded, offset := slot.Encode(id)
	copy(b[offset:], encoded)
	return b
}

// Reader reads the file from its beginning. There may be several at a time.
func (im *Image) Reader() io.Reader {
	readers := make([]io.Reader, len(im.parts))
	for i, open := range im.parts {
		readers[i] = open()
	}
	return io.MultiReader(readers...)
}

// write writes the file.
func (im *Image) write(dst *os.File, progress func(done, total int64)) error {
	pieces, content, block := output.NewPieces(dst), im.Reader(), make([]byte, mostBlock)
	for done := int64(0); ; {
		n, err := content.Read(block)
		if n > 0 && progress != nil {
			done += int64(n)
			progress(done, im.FileBytes)
		}
		if _, failed := pieces.Write(block[:n]); failed != nil {
			return failed
		}
		if err == io.EOF {
			return pieces.Flush()
		}
		if err != nil {
			return err
		}
	}
}
