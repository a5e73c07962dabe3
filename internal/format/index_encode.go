package format

import (
	"cmp"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"xpwc/internal/digest"
)

// encodeIndex returns the index of the records, with room for the trailer after it, and the sum that its slot must
// have.
func encodeIndex(generation uint64, layouts []Layout, records []Record) (index []byte, sum Digest, err error) {
	byOffset := func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) }
	if !slices.IsSortedFunc(records, byOffset) {
		slices.SortStableFunc(records, byOffset)
	}
	if len(records) >= 1<<31-1 || len(layouts) > math.MaxUint16 {
		return nil, Digest{}, damaged("%d records of %d layouts are too many", len(records), len(layouts))
	}
	names := interner{offsets: make(map[string]uint32, len(records))}
	for i := range layouts {
		names.add(layouts[i].Description)
		if layouts[i].Evidence != "" {
			names.add(layouts[i].Evidence)
		}
	}
	sources := sourceTable{numbers: map[namedSource]uint32{}}
	refs := make([]references, len(records)) // there may be a million records, so that each is looked up once
	for i := range records {
		r := &records[i]
		refs[i] = references{
			kernel: names.add(r.Kernel), bias: names.add(r.Bias), source: sources.add(r.Source, r.SourceName),
		}
	}
	sourceNames, sourceNamesAt := sources.names(), uint32(0)
	if sourceNames != "" {
		sourceNamesAt = names.add(sourceNames)
	}
	slots := tableSlots(uint64(len(records)))
	n := counts{
		layouts: uint64(len(layouts)), sources: uint64(len(sources.rows)),
		records: uint64(len(records)), slots: slots, strings: uint64(len(names.text)),
	}
	copies, copiesAt := encodeCopies(records), uint32(0)
	if n.strings+uint64(len(copies)) > n.mostStrings() {
		copies = "" // a start reads those models, which is better than no index
	}
	if copies != "" {
		copiesAt = names.add(copies)
		n.strings = uint64(len(names.text))
	}
	if n.strings > n.mostStrings() {
		return nil, Digest{}, damaged("%d records have %d bytes of names", n.records, n.strings)
	}
	offsets := n.arrange()
	b := make([]byte, offsets.end, offsets.end+nativeTrailerSize)
	copy(b, indexMagic)
	le.PutUint64(b[8:], generation)
	le.PutUint64(b[16:], uint64(len(records)))
	le.PutUint32(b[24:], uint32(len(layouts)))
	le.PutUint32(b[28:], recordSize)
	le.PutUint64(b[32:], slots)
	le.PutUint64(b[40:], uint64(len(names.text)))
	le.PutUint64(b[48:], blockSize)
	le.PutUint32(b[56:], uint32(len(sources.rows)))
	le.PutUint32(b[atSourceNames:], sourceNamesAt)
	le.PutUint32(b[atSourceNames+4:], uint32(len(sourceNames)))
	le.PutUint32(b[atCopies:], copiesAt)
	le.PutUint32(b[atCopies+4:], uint32(len(copies)))

	number := map[Digest]uint16{}
	for i, l := range layouts {
		row := b[IndexHeaderSize+layoutSize*i:]
		copy(row, l.Fingerprint[:])
		le.PutUint32(row[16:], names.offsets[l.Description])
		le.PutUint32(row[20:], uint32(len(l.Description)))
		if l.Evidence != "" {
			le.PutUint32(row[24:], names.offsets[l.Evidence])
			le.PutUint32(row[28:], uint32(len(l.Evidence)))
		}
		number[l.Fingerprint] = uint16(i)
	}
	for i := range sources.rows {
		copy(b[offsets.sources+sourceSize*uint64(i):], sources.rows[i].digest[:])
	}
	table := b[offsets.table:offsets.strings]
	const longProbe = 64
	free := map[uint64]uint64{} // where long probes ended: a hostile index may have all its records under one key
	for i := range records {
		r := &records[i]
		layout, ok := number[r.Layout]
		if !ok {
			return nil, Digest{}, damaged("record %d has an unlisted layout", i)
		}
		row := b[offsets.body+recordSize*uint64(i):][:recordSize]
		r.encode(row, layout, refs[i])
		slot := r.hash() & (slots - 1)
		start, probes := slot, 0
		for le.Uint32(table[4*slot:]) != 0 {
			slot = (slot + 1) & (slots - 1)
			probes++
			if next, ok := free[start]; ok && probes == longProbe {
				slot = next
			}
		}
		if probes >= longProbe {
			free[start] = slot
		}
		le.PutUint32(table[4*slot:], uint32(i)+1)
	}
	copy(b[offsets.strings:], names.text)
	body := b[offsets.body:]
	for i := range offsets.blocks() {
		le.PutUint64(b[offsets.sums+sumSize*i:], xxh3.Hash(block(body, i)))
	}
	return b, digest.Of(b[:offsets.body]), nil
}

// tableSlots returns how many slots the hash table of so many records has.
func tableSlots(records uint64) uint64 {
	slots := uint64(4)
	for slots < 2*records {
		slots *= 2
	}
	return slots
}

func block(body []byte, i uint64) []byte {
	return body[i*blockSize : min((i+1)*blockSize, uint64(len(body)))]
}

// references are a record's references to other parts of the index: the offsets of its names, and its source's number.
type references struct{ kernel, bias, source uint32 }

// encode writes a record into its row.
func (r *Record) encode(row []byte, layout uint16, refs references) {
	flags := r.Flags &^ HasBias
	if r.HasBias {
		flags |= HasBias
	}
	le.PutUint64(row[0:], r.Offset)
	le.PutUint64(row[8:], r.Size)
	copy(row[16:], r.Sum[:])
	le.PutUint32(row[atSeed:], r.Seed)
	le.PutUint32(row[atFingerprintID:], r.FingerprintID)
	le.PutUint16(row[atLayout:], layout)
	row[atFlags] = byte(flags)
	family := r.Family.Encode()
	copy(row[43:], family[:])
	le.PutUint32(row[atSource:], refs.source)
	le.PutUint32(row[atKernel:], refs.kernel)
	le.PutUint32(row[atKernel+4:], uint32(len(r.Kernel)))
	le.PutUint32(row[atBias:], refs.bias)
	le.PutUint32(row[atBias+4:], uint32(len(r.Bias)))
	copy(row[atPacking:], r.Packing[:])
	copy(row[atKernelStamp:], r.Stamps.Kernel[:])
	copy(row[100:], r.Digests.Kernel[:])
	copy(row[atBiasStamp:], r.Stamps.Bias[:])
	copy(row[132:], r.Digests.Bias[:])
	le.PutUint64(row[148:], r.LeastSize)
	le.PutUint32(row[156:], seconds(r.PackedAt))
	le.PutUint32(row[160:], seconds(r.UsedAt))
}

// seconds is a time as a record has it, to the year 2106.
func seconds(since1970 int64) uint32 { return uint32(min(max(since1970, 0), math.MaxUint32)) }

// An interner collects strings, each once.
type interner struct {
	text    []byte
	offsets map[string]uint32
}

// add collects a string, and returns its offset. What begins after 4 GiB has no valid place.
func (n *interner) add(s string) (offset uint32) {
	offset, ok := n.offsets[s]
	if !ok {
		offset = uint32(len(n.text))
		n.offsets[s] = offset
		n.text = append(n.text, s...)
	}
	return offset
}

// EncodeGeneration lays out the end of a file whose payloads, including dead bytes between them, end at tail: the index
// of the records, which it sorts by payload offset, and the trailer. The block belongs at the slot's IndexOffset and is
// the last of the file. Every record's layout must be among layouts. There must be fewer than 2^31 records and 2^16
// layouts, and different names and descriptions must add up to less than 4 GiB, and to at most 64 MiB and eight times
// the size of the records; it returns an error otherwise.
func EncodeGeneration(generation, tail uint64, layouts []Layout, records []Record,
) (slot Slot, block []byte, err error) {
	index, sum, err := encodeIndex(generation, layouts, records)
	if err != nil {
		return Slot{}, nil, err
	}
	slot = Slot{
		Generation:  generation,
		IndexOffset: Align(tail),
		IndexSize:   uint64(len(index)),
		IndexSum:    sum,
		Records:     uint64(len(records)),
	}
	occupied := uint64(0)
	for i := range records {
		if i == 0 || records[i].Offset != records[i-1].Offset {
			slot.PayloadBytes += records[i].Size
			occupied += Align(records[i].Size)
		}
	}
	trailerAt := slot.IndexOffset + slot.IndexSize
	block = append(index, EncodeTrailer([]TrailerEntry{NativeTrailer(trailerAt)}, trailerAt)...)
	slot.End = slot.IndexOffset + uint64(len(block))
	slot.DeadBytes = slot.IndexOffset - HeaderSize - occupied
	return slot, block, nil
}

// nativeTrailerSize is the size of a native file's trailer.
const nativeTrailerSize = trailerEntrySize + uint64(len(NativeEntry)) + FooterSize

// Room for the layouts of a generation: their number, and the bytes of their descriptions and of their evidence.
const roomForLayouts, roomForDescriptions, roomForEvidence = 8, 4 << 10, 16 << 10

// GenerationSize returns an upper bound in bytes of the index and the trailer for this number of records and total
// bytes of names. It includes room for the names of sources and for the layouts.
func GenerationSize(records, names uint64) uint64 {
	limit := counts{
		layouts: roomForLayouts, sources: records, // each has its own
		records: records, slots: tableSlots(records),
		strings: names + roomForDescriptions + roomForEvidence + mostSourceNames + records*copySize,
	}
	return limit.arrange().end + nativeTrailerSize
}

// NamesFit reports whether an index can list this number of records with this total of bytes of names, and its layouts
// and sources as well: see EncodeGeneration.
func NamesFit(records, names uint64) bool {
	const others = 1 << 20
	n := counts{records: records, strings: names + others}
	return n.strings <= n.mostStrings()
}
