package format

// EncodeGeneration lays out the end of a file whose payloads, with what is dead between them, reach up to tail: the
// index of the records, which it sorts by payload offset, and the trailer with the entries, to which it adds those of
// the header and of the index. The block belongs at the slot's IndexOffset and is the last of the file. Errors are
// those of EncodeIndex.
func EncodeGeneration(generation, tail uint64, layouts []Layout, records []Record, entries []TrailerEntry,
) (slot Slot, block []byte, err error) {
	index, sum, err := EncodeIndex(generation, layouts, records)
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
	entries = append(entries,
		TrailerEntry{Name: HeaderEntry, Size: HeaderSize},
		TrailerEntry{Name: IndexEntry, Offset: slot.IndexOffset, Size: slot.IndexSize},
	)
	block = append(index, EncodeTrailer(entries, slot.IndexOffset+slot.IndexSize)...)
	slot.End = slot.IndexOffset + uint64(len(block))
	slot.DeadBytes = slot.IndexOffset - HeaderSize - occupied
	return slot, block, nil
}

// GenerationSize returns how many bytes the index and the trailer of so many records take at most, whose names have
// so many bytes together, with room for the descriptions of some layouts.
func GenerationSize(records, names uint64) uint64 {
	const layouts, descriptions = 8, 4 << 10
	index := arrange(layouts, records, tableSlots(records), names+descriptions).end
	return index + (records+2)*trailerEntrySize + names + uint64(len(HeaderEntry)+len(IndexEntry)) + FooterSize
}

// TrailerEntries lists the payloads of one layout, one a name: the last record that has it.
func TrailerEntries(layout Digest, records []Record) []TrailerEntry {
	var entries []TrailerEntry
	at := map[string]int{}
	for _, r := range records {
		if r.Layout != layout {
			continue
		}
		e := TrailerEntry{Name: r.Kernel + r.Bias, Offset: r.Offset, Size: r.Size, Seed: r.Seed}
		if i, listed := at[e.Name]; listed {
			entries[i] = e
			continue
		}
		at[e.Name] = len(entries)
		entries = append(entries, e)
	}
	return entries
}
