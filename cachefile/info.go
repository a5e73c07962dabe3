package cachefile

import (
	"bytes"
	"cmp"
	"slices"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// Info describes a file. Its parts have JSON tags for programs that print them.
type Info struct {
	Format Format
	// Version of the format.
	Version int
	// ID is the identity of a native file, random. No other file has it but its copies, made byte for byte.
	ID [16]byte
	// Generation is the number of the commit in force, 0 while there is none.
	Generation uint64
	// Slots are the two slots in a native file's header, each of which locates a generation's index, even ones first.
	Slots []Slot
	// Layouts of a native file, in the order of its index.
	Layouts []Layout
	// Models are the models that the entries of a native file were packed from, in the order of their names; unknown
	// ones are last.
	Models  []Model
	Entries int
	// Note is the text that WriteOptions.Note put into an ExecuTorch file, "" if there is none. Anybody who can write
	// the file chooses it: do not trust it.
	Note string

	Sizes
}

// Sizes are the sizes of the parts of a file. They add up to FileBytes.
type Sizes struct {
	FileBytes    int64 `json:"file_bytes"`
	HeaderBytes  int64 `json:"header_bytes"`
	PayloadBytes int64 `json:"payload_bytes"`
	IndexBytes   int64 `json:"index_bytes"`
	TrailerBytes int64 `json:"trailer_bytes"`
	// PaddingBytes align payloads and index. DeadBytes are bytes that nothing refers to; compacting frees them.
	// UncommittedBytes lie after the end of the generation in force: a writer is at work, or was killed.
	PaddingBytes     int64 `json:"padding_bytes"`
	DeadBytes        int64 `json:"dead_bytes"`
	UncommittedBytes int64 `json:"uncommitted_bytes"`
}

// A Slot locates the index of a generation.
type Slot struct {
	State      SlotState `json:"state"`
	Offset     int64     `json:"-"`                    // of the slot itself
	Generation uint64    `json:"generation,omitempty"` // 0 unless its checksum is right, as the rest
	IndexAt    int64     `json:"index_offset,omitempty"`
	IndexBytes int64     `json:"-"`
	End        int64     `json:"end_offset,omitempty"` // of the file with this generation
	Entries    int64     `json:"-"`
}

// SlotState is the state of a slot.
type SlotState string

// The states of a slot.
const (
	SlotEmpty   SlotState = "empty"    // never written
	SlotInForce SlotState = "in force" // of the generation that is read
	SlotOlder   SlotState = "older"    // of a generation before it
	SlotTorn    SlotState = "torn"     // has a wrong checksum: damaged, or cut off by a crash
)

// A Layout is a way of packing that entries of a file are of.
type Layout struct {
	Fingerprint  Digest `json:"layout"`
	Description  string `json:"description"`
	Entries      int    `json:"entry_count"`
	PayloadBytes int64  `json:"payload_bytes"` // with payloads that several entries share counted once
	// Families are the families of the entries, each once; the zero one stands for entries without a packing identity.
	Families []packing.Family `json:"-"`
	// Evidence are bytes that show processes on some machines that they pack in this layout: see docs/format.md.
	Evidence string `json:"-"`
}

// A Model is what entries were packed from: a file, mostly.
type Model struct {
	Name         string `json:"model,omitempty"` // see Entry.SourceName
	Source       Digest `json:"source,omitzero"` // see Entry.Source
	Entries      int    `json:"entry_count"`
	PayloadBytes int64  `json:"payload_bytes"` // with payloads that several of its entries share counted once
}

// modelOf returns the model in an entry's record.
func modelOf(e *Entry) Model { return Model{Name: e.SourceName, Source: e.Source} }

// inOrderOfNames returns models with their figures.
func inOrderOfNames(models map[Model]*Model) (list []Model) {
	for _, m := range models {
		list = append(list, *m)
	}
	unknown := func(m *Model) int {
		if m.Name == "" {
			return 1
		}
		return 0
	}
	slices.SortFunc(list, func(a, b Model) int {
		return cmp.Or(cmp.Compare(unknown(&a), unknown(&b)), cmp.Compare(a.Name, b.Name),
			bytes.Compare(a.Source[:], b.Source[:]))
	})
	return list
}

// Info describes the file. The error is of the first damaged record, and comes with figures of the others all the same.
func (f *File) Info() (Info, error) {
	info := Info{
		Format: f.format, Sizes: Sizes{FileBytes: int64(f.size)}, ID: f.id, Generation: f.slot.Generation, Note: f.note,
	}
	switch f.format {
	case Native:
		info.Version = format.Version
		for _, s := range f.slots {
			info.Slots = append(info.Slots, f.slotOf(s))
		}
	case XPWC2:
		info.Version = format.TrailerVersion
	}
	number := map[Digest]int{}
	if f.index != nil {
		for i, l := range f.index.Layouts() {
			number[l.Fingerprint] = i
			evidence := format.DecodeEvidence(l.Evidence).Encode() // "" for malformed evidence
			info.Layouts = append(info.Layouts, Layout{
				Fingerprint: l.Fingerprint, Description: l.Description, Evidence: evidence})
		}
	}
	families := format.Families{}
	models := map[Model]*Model{}
	prev := Entry{Offset: -1}
	for e, err := range f.Entries() {
		info.Entries++
		if err != nil || f.format != Native {
			continue
		}
		l := &info.Layouts[number[e.Layout]]
		l.Entries++
		families.Add(e.Layout, e.Family)
		if e.Offset != prev.Offset || e.Layout != prev.Layout {
			l.PayloadBytes += e.Size
		}
		model := modelOf(&e)
		m := models[model]
		if m == nil {
			m = &Model{Name: model.Name, Source: model.Source}
			models[model] = m
		}
		m.Entries++
		if e.Offset != prev.Offset || model != modelOf(&prev) {
			m.PayloadBytes += e.Size
		}
		prev = e
	}
	info.Models = inOrderOfNames(models)
	for i := range info.Layouts {
		info.Layouts[i].Families = families.InLayout(info.Layouts[i].Fingerprint)
	}
	segments, err := f.segments()
	for _, s := range segments {
		*map[Kind]*int64{
			Header: &info.HeaderBytes, Payload: &info.PayloadBytes, Padding: &info.PaddingBytes, Dead: &info.DeadBytes,
			Index: &info.IndexBytes, Trailer: &info.TrailerBytes, Uncommitted: &info.UncommittedBytes,
		}[s.Kind] += s.Size
	}
	return info, err
}

func (f *File) slotOf(s format.StoredSlot) Slot {
	state := SlotOlder
	switch {
	case s.Torn:
		state = SlotTorn
	case s.Generation == 0:
		state = SlotEmpty
	case s.Generation == f.slot.Generation:
		state = SlotInForce
	}
	return Slot{State: state, Offset: int64(s.Offset), Generation: s.Generation, IndexAt: int64(s.IndexOffset),
		IndexBytes: int64(s.IndexSize), End: int64(s.End), Entries: int64(s.Records)}
}
