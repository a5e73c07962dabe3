package format

// EncodeGeneration lays out the end of a file whose payloads, with what is dead between them, reach up to tail: the
// index of the records, which it sorts by payload offset, and the trailer. The block belongs at the slot's IndexOffset
// and is the last of the file. Errors are those of EncodeIndex.
func EncodeGeneration(generation, tail uint64, layouts []Layout, records []Record,
) (slot Slot, block []byte, err error) {
	index, sum, err := encodeIndex(generation, layouts, records, nativeTrailerSize, true)
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

// What there is room for beside the records of a generation: so many layouts, and the bytes of their descriptions and
// of their evidence.
const roomForLayouts, roomForDescriptions, roomForEvidence = 8, 4 << 10, 16 << 10

// GenerationSize returns how many bytes the index and the trailer of so many records take at most, whose names have
// so many bytes together, with room for names of sources and what is said of some layouts.
func GenerationSize(records, names uint64) uint64 {
	most := counts{
		layouts: roomForLayouts, sources: records, // each has its own
		records: records, slots: tableSlots(records),
		strings: names + roomForDescriptions + roomForEvidence + mostSourceNames,
	}
	return most.arrange().end + nativeTrailerSize
}

// NamesFit reports whether an index can list so many records, whose names have so many bytes together, beside the
// descriptions of some layouts: see EncodeIndex.
func NamesFit(records, names uint64) bool {
	n := counts{records: records, strings: names + roomForDescriptions}
	return n.strings <= n.mostStrings()
}
