package cachefile

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"io"
	"maps"
	"slices"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

// An Image is a native file that is laid out and not written: its payloads are those of the files it was combined of,
// which must stay open while it is read.
type Image struct {
	// Layouts of the entries, in the order of their fingerprints.
	Layouts []Layout
	// Entries, their payloads' bytes and those of the whole file.
	Entries                 int
	PayloadBytes, FileBytes int64

	parts []func() io.Reader
}

// Combine lays out a native file of all entries of native files that keep returns true for; nil keeps all. The same
// entries, of models' files with the same names, give the same bytes, whoever packed them, when and where. For that,
// what says something only where it was packed is left out: the source and the stamps of its tensors, and the times.
// (A stamp is no evidence elsewhere: two machines of one image have the same devices, inodes and times for different
// files. Whoever uses such an entry compares digests, once, and notes source and stamps of its own. Those of sealed
// entries are kept, and the names of models' files.) Entries are in the order of their keys, each once, and equal
// payloads are stored once. Payloads that differ under all that a look-up knows become variants. The generation is 1,
// and in place of a random identity the file has the digest of its index, and so of all payloads' checksums.
//
// The index has the layouts' descriptions and evidence, which depend on who packed. describe returns what is in their
// place; nil keeps them: of several files' evidence, what all say together of families that there are entries of.
//
// Every payload is compared with its checksum. Errors: ErrDamaged, ErrForeign for a file that ExecuTorch wrote,
// ErrEmpty if there is no entry.
func Combine(files []*File, keep func(Entry) bool, describe func(Layout) Description) (*Image, error) {
	var all []portable
	descriptions, said := map[Digest]string{}, map[Digest]format.Evidence{}
	for _, f := range files {
		if err := f.convertible(Native); err != nil {
			return nil, err
		}
		for e, err := range f.Entries() {
			if err == nil && (keep == nil || keep(e)) {
				err = f.Check(e)
				all = append(all, newPortable(f, e))
			}
			if err != nil {
				return nil, err
			}
		}
		if f.index == nil {
			continue
		}
		for _, l := range f.index.Layouts() {
			descriptions[l.Fingerprint] = l.Description
			said[l.Fingerprint] = said[l.Fingerprint].And(format.DecodeEvidence(l.Evidence))
		}
	}
	if len(all) == 0 {
		return nil, ErrEmpty
	}
	return layOut(inOrder(all), func(l Layout) Description {
		l.Description, l.Evidence = descriptions[l.Fingerprint], said[l.Fingerprint].Of(l.Families).Encode()
		if describe == nil {
			return Description{l.Description, l.Evidence}
		}
		return describe(l)
	})
}

// A Description is what the index of a new file says of a layout: a [Layout]'s Description and Evidence.
type Description struct{ Text, Evidence string }

// A portable entry has nothing that says something only where it was packed.
type portable struct {
	record format.Record
	open   func() io.Reader
}

func newPortable(f *File, e Entry) portable {
	r := e.record
	r.PackedAt, r.UsedAt = 0, 0
	if _, sealed := r.Sealed(); !sealed {
		r.Source, r.KernelStamp, r.BiasStamp = Digest{}, Digest{}, Digest{}
	}
	return portable{r, func() io.Reader { return f.Payload(e) }}
}

// inOrder sorts entries by everything that can differ, but for the flags: what any packer saw of an entry holds.
func inOrder(entries []portable) []portable {
	slices.SortStableFunc(entries, func(a, b portable) int { return compare(&a.record, &b.record) })
	once := entries[:0]
	for _, e := range entries {
		if n := len(once); n > 0 && compare(&once[n-1].record, &e.record) == 0 {
			is := &once[n-1].record
			is.Flags |= e.record.Flags
			if name := e.record.SourceName; is.SourceName == "" || name != "" && name < is.SourceName {
				is.SourceName = name
			}
			continue
		}
		once = append(once, e)
	}
	// Hosts that do not give scales pack other bytes of the same content. A cache serves the first that it has, but
	// of a file that other machines packed nobody knows whose that is.
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
		byBytes(a.KernelDigest, b.KernelDigest),
		byBytes(a.BiasDigest, b.BiasDigest),
	)
}

func biases(r *format.Record) int {
	if r.HasBias {
		return 1
	}
	return 0
}

func byBytes(a, b Digest) int { return bytes.Compare(a[:], b[:]) }

func layOut(entries []portable, describe func(Layout) Description) (*Image, error) {
	type content struct {
		sum  Digest
		size uint64
	}
	im := &Image{Entries: len(entries)}
	tail := uint64(format.HeaderSize)
	records := make([]format.Record, len(entries))
	layouts := map[Digest]*Layout{}
	families := format.Families{}
	stored := map[content]uint64{}
	for i, e := range entries {
		r := e.record
		l := layouts[r.Layout]
		if l == nil {
			l = &Layout{Fingerprint: r.Layout}
			layouts[r.Layout] = l
		}
		l.Entries++
		families.Add(r.Layout, r.Family)
		at, known := stored[content{r.Sum, r.Size}]
		if !known {
			at = im.align(&tail)
			im.parts = append(im.parts, e.open)
			tail += r.Size
			stored[content{r.Sum, r.Size}] = at
			l.PayloadBytes += int64(r.Size)
		}
		r.Offset = at
		records[i] = r
	}
	im.align(&tail)
	var listing []format.Layout
	for _, fingerprint := range slices.SortedFunc(maps.Keys(layouts), byBytes) {
		l := *layouts[fingerprint]
		l.Families = families.Of(fingerprint)
		as := describe(l)
		l.Description, l.Evidence = as.Text, as.Evidence
		im.Layouts = append(im.Layouts, l)
		listing = append(listing, format.Layout{Fingerprint: fingerprint, Description: as.Text, Evidence: as.Evidence})
	}
	slot, block, err := format.EncodeGeneration(1, tail, listing, records)
	if err != nil {
		return nil, err
	}
	im.PayloadBytes, im.FileBytes = int64(slot.PayloadBytes), int64(slot.End)
	im.parts = append(im.parts, inMemory(block))
	im.parts = append([]func() io.Reader{inMemory(headerOf(digest.Of(block[:slot.IndexSize]), slot))}, im.parts...)
	return im, nil
}

// align ends the last part where the next one may begin.
func (im *Image) align(tail *uint64) uint64 {
	if gap := format.Align(*tail) - *tail; gap > 0 {
		im.parts = append(im.parts, inMemory(make([]byte, gap)))
		*tail += gap
	}
	return *tail
}

func inMemory(b []byte) func() io.Reader { return func() io.Reader { return bytes.NewReader(b) } }

// newHeader is the header block of a file with one generation and an identity of its own.
func newHeader(slot format.Slot) []byte {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return headerOf(id, slot)
}

// headerOf is the header block of a file with one generation.
func headerOf(id [16]byte, slot format.Slot) []byte {
	b := format.NewHeader(id)
	encoded, at := slot.Encode(id)
	copy(b[at:], encoded)
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
