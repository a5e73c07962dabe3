package cachefile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

func TestAFileTellsWhatIsInIt(t *testing.T) {
	f := open(t, write(t, sample(t)))
	listed := entries(t, f)
	require.Len(t, listed, len(weights))
	for i, w := range weights {
		e := listed[i]
		require.Equal(t, w.kernel+w.bias, e.Name)
		require.Equal(t, w.layout.Fingerprint, e.Layout)
		require.Equal(t, w.seed, e.Seed)
		require.Equal(t, w.bias != "", e.HasBias)
		require.Equal(t, time.Unix(1000+w.used, 0).UTC(), e.UsedAt)
		require.Equal(t, w.flags == format.Variant, e.Variant)
		require.Equal(t, w.flags == format.Tied, e.Tied)
		require.NoError(t, f.Check(e))
		if !w.shared {
			require.Equal(t, payloadOf(i, w), content(t, f, e))
		}
	}
	require.Equal(t, listed[3].Offset, listed[4].Offset)

	info, err := f.Info()
	require.NoError(t, err)
	require.Equal(t, cachefile.Native, info.Format)
	require.Equal(t, 4, info.Version)
	require.Equal(t, id, info.ID)
	require.EqualValues(t, 1, info.Generation)
	require.Equal(t, len(weights), info.Entries)
	nothingSaid := []packing.Family{{}}
	require.Equal(t, []cachefile.Layout{
		{Fingerprint: thisLayout.Fingerprint, Description: thisLayout.Description, Entries: 4, PayloadBytes: 301_077,
			Families: nothingSaid},
		{Fingerprint: otherLayout.Fingerprint, Description: otherLayout.Description, Entries: 2, PayloadBytes: 200_128,
			Families: nothingSaid},
	}, info.Layouts)
	require.EqualValues(t, 501_205, info.PayloadBytes)
	require.Zero(t, info.DeadBytes)
	require.Equal(t, cachefile.SlotEmpty, info.Slots[0].State)
	require.Equal(t, cachefile.SlotInForce, info.Slots[1].State)
}

func requireMapCovers(t testing.TB, f *cachefile.File, size int) []cachefile.Segment {
	segments, err := f.Map()
	require.NoError(t, err)
	offset := int64(0)
	for _, s := range segments {
		require.Equal(t, offset, s.Offset)
		require.Positive(t, s.Size)
		offset += s.Size
	}
	require.EqualValues(t, size, offset)
	return segments
}

func TestTheMapHasEveryByteOnce(t *testing.T) {
	m := maker{gap: 256}
	for i := range weights {
		if weights[i].shared {
			continue
		}
		m.add(weights[i])
		m.commit(t)
	}
	b := append(m.bytes(), "a writer is at work"...)
	f := open(t, write(t, b))
	kinds := map[cachefile.Kind]int{}
	for _, s := range requireMapCovers(t, f, len(b)) {
		kinds[s.Kind]++
	}
	require.Equal(t, 1, kinds[cachefile.Header])
	require.Equal(t, 5, kinds[cachefile.Payload])
	require.Equal(t, 4, kinds[cachefile.OldIndex])
	require.Equal(t, 1, kinds[cachefile.Index])
	require.Equal(t, 1, kinds[cachefile.Trailer])
	require.Equal(t, 1, kinds[cachefile.Uncommitted])
	info, err := f.Info()
	require.NoError(t, err)
	require.EqualValues(t, m.slots[4].DeadBytes, info.DeadBytes)
	require.EqualValues(t, 19, info.UncommittedBytes)
	require.EqualValues(t, len(b), info.HeaderBytes+info.PayloadBytes+info.IndexBytes+info.TrailerBytes+
		info.PaddingBytes+info.DeadBytes+info.UncommittedBytes)
	require.EqualValues(t, 5, info.Generation)
	require.Equal(t, cachefile.SlotOlder, info.Slots[0].State)

	b = executorchFile("a", "b", "c")
	segments := requireMapCovers(t, open(t, write(t, b)), len(b))
	require.Equal(t, "c", segments[4].Name)
	require.Equal(t, cachefile.Trailer, segments[6].Kind)
	require.Equal(t, cachefile.Padding, segments[5].Kind)
}

func TestAFileWithoutACommitIsEmpty(t *testing.T) {
	for name, b := range map[string][]byte{
		"no bytes": nil, "zeros": make([]byte, format.HeaderSize), "a header": format.NewHeader(id),
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, b)
			f := open(t, path)
			require.Empty(t, entries(t, f))
			requireMapCovers(t, f, len(b))
			info, err := f.Info()
			require.NoError(t, err)
			require.Zero(t, info.Generation)
			requireSound(t, path)
		})
	}
}

func TestAFileWhoseHeaderAPowerFailureLostIsDamaged(t *testing.T) {
	path := write(t, make([]byte, 5000))
	problems, err := cachefile.Verify(path, nil)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Message, "power failure")
}

func TestWhatIsNoCacheIsRefused(t *testing.T) {
	_, err := cachefile.Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	for name, b := range map[string][]byte{"text": []byte("my notes"), "long": bytes.Repeat([]byte("notes"), 1000)} {
		path := write(t, b)
		_, err := cachefile.Open(path)
		require.ErrorIs(t, err, cachefile.ErrNotCache, name)
		require.ErrorContains(t, err, path)
		_, err = cachefile.Verify(path, nil)
		require.ErrorIs(t, err, cachefile.ErrNotCache, name)
	}
	_, err = cachefile.Open(t.TempDir())
	require.ErrorIs(t, err, cachefile.ErrNotCache)
	newer := executorchFile("a")
	binary.LittleEndian.PutUint32(newer[len(newer)-4:], 3)
	_, err = cachefile.Open(write(t, newer))
	require.ErrorIs(t, err, cachefile.ErrVersion)
}

// Each case damages the sample file; Verify must report the offset and the words.
func TestVerifySaysWhatIsWrongWhere(t *testing.T) {
	good := sample(t)
	h, err := format.DecodeHeader(good)
	require.NoError(t, err)
	slot := h.Current
	body := slot.IndexOffset + 256 // the root: 128, two layouts, a source, two block sums, zeros
	trailer := slot.IndexOffset + slot.IndexSize
	flip := func(offset uint64) func([]byte) []byte { return func(b []byte) []byte { b[offset] ^= 0x10; return b } }
	rewritten := func(change func(m *maker)) func([]byte) []byte {
		return func([]byte) []byte {
			var m maker
			m.add(weights...)
			change(&m)
			m.commit(t)
			return m.bytes()
		}
	}
	retrailed := func(change func(entries []format.TrailerEntry) []format.TrailerEntry) func([]byte) []byte {
		return func(b []byte) []byte {
			entries, _, err := format.DecodeTrailer(bytes.NewReader(b), uint64(len(b)))
			require.NoError(t, err)
			b = append(b[:trailer], format.EncodeTrailer(change(entries), trailer)...)
			slot := slot
			slot.End = uint64(len(b))
			encoded, offset := slot.Encode(id)
			copy(b[offset:], encoded)
			return b
		}
	}
	reslotted := func(change func(s *format.Slot)) func([]byte) []byte {
		return func(b []byte) []byte {
			slot := slot
			change(&slot)
			encoded, offset := slot.Encode(id)
			copy(b[offset:], encoded)
			return b
		}
	}
	f := open(t, write(t, good))
	listed := entries(t, f)
	offset := func(entry int) uint64 { return uint64(listed[entry].Offset) }
	cut := func(size uint64) func([]byte) []byte { return func(b []byte) []byte { return b[:size] } }
	whole := uint64(len(good))
	for name, c := range map[string]struct {
		damage  func([]byte) []byte
		offset  uint64
		entry   string
		message string
	}{
		"the header": {flip(16), 0, "", "the header's checksum"},
		"the magic":  {flip(0), 0, "", "the header is damaged; by its trailer"},
		"all of the header": {func(b []byte) []byte { clear(b[:format.HeaderSize]); return b }, 0, "",
			"the header is damaged: it is empty"},
		"the slot in force":      {flip(1024 + 40), 1024, "", "the slot of odd generations"},
		"the other slot":         {flip(512 + 40), 512, "", "the slot of even generations"},
		"the root":               {flip(slot.IndexOffset + 20), slot.IndexOffset, "", "index"},
		"a layout":               {flip(slot.IndexOffset + 130), slot.IndexOffset, "", "checksum of the index' root"},
		"a record":               {flip(body + 200), body, "", "block 0"},
		"a name":                 {flip(trailer - 1), slot.IndexOffset, "", "block 1"},
		"the first payload":      {flip(offset(0)), offset(0), "convconv.bias", "the payload's 1000 bytes"},
		"the last payload's end": {flip(offset(5) + 127), offset(5), "scaled", "the payload's 128 bytes"},
		"a shared payload":       {flip(offset(4) + 3), offset(4), "tied", "the payload's 77 bytes"},
		"the trailer's magic":    {flip(uint64(len(good)) - 8), trailer, "", "the magic in its footer is wrong"},
		"the trailer's version":  {flip(uint64(len(good)) - 4), trailer, "", "the version in its footer is "},
		"the trailer's start":    {flip(uint64(len(good)) - 20), trailer, "", "trailer"},
		"a seed in the trailer":  {flip(trailer + 4 + 11 + 16), trailer, "", "it does not list all bytes"},
		"an offset in it":        {flip(trailer + 4 + 11), trailer, "", "trailer"},
		"the end is missing":     {cut(whole - 1), whole - 1, "", "the file ends here"},
		"the index is missing":   {cut(slot.IndexOffset + 10), slot.IndexOffset + 10, "", "the file ends here"},
		"dead bytes": {reslotted(func(s *format.Slot) { s.DeadBytes++ }), 1024, "",
			"1 bytes are dead, but it is 0"},
		"payload bytes": {reslotted(func(s *format.Slot) { s.PayloadBytes++ }), slot.IndexOffset, "",
			"501205 bytes, the slot says 501206"},
		"the last generation": {rewritten(func(m *maker) { m.skipped = math.MaxUint64 - 1 }), 0, "",
			"no room for others"},
		"another generation's": {reslotted(func(s *format.Slot) { s.Generation = 3 }), slot.IndexOffset, "",
			"generation 1, its slot of generation 3"},
		"payloads that overlap": {rewritten(func(m *maker) { m.records[2].Offset -= 128 }), body + 2*164, "",
			"record 2 overlaps"},
		"a payload not aligned": {rewritten(func(m *maker) { m.records[0].Offset += 32 }), body, "", "record 0"},
		"a payload in the header": {rewritten(func(m *maker) { m.records[0].Offset = 0 }), body, "",
			"record 0 lies outside"},
		"an empty payload": {rewritten(func(m *maker) { m.records[5].Size = 0 }), body + 5*164, "", "record 5"},
		"nothing is listed": {retrailed(func([]format.TrailerEntry) []format.TrailerEntry { return nil }), trailer, "",
			"it does not list all bytes before it as xpwc:native"},
		"not all is listed": {retrailed(func(e []format.TrailerEntry) []format.TrailerEntry {
			e[0].Size--
			return e
		}), trailer, "", "it does not list all bytes before it"},
		"a payload is listed": {retrailed(func(e []format.TrailerEntry) []format.TrailerEntry {
			return append(e, format.TrailerEntry{Name: "scaled", Offset: uint64(listed[5].Offset), Size: 128, Seed: 5})
		}), trailer, "", "and nothing else"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.damage(append([]byte(nil), good...)))
			problems, err := cachefile.Verify(path, nil)
			require.NoError(t, err)
			require.NotEmpty(t, problems)
			var places []string
			for _, p := range problems {
				require.ErrorIs(t, &p, cachefile.ErrDamaged)
				require.Equal(t, path, p.Path)
				places = append(places, p.Place())
				if uint64(p.Offset) == c.offset && p.Name == c.entry && strings.Contains(p.Message, c.message) {
					return
				}
			}
			require.Fail(t, "not reported", "%d %q %s: %v", c.offset, c.entry, c.message, places)
		})
	}
}

// What lies in no payload and no structure has no meaning; every other bit has.
// A small file must not make a program that looks into it take all memory.
func TestManyRecordsOfOneLongNameAreRefused(t *testing.T) {
	var m maker
	long := strings.Repeat("k", 1<<20)
	for i := range 100 {
		m.add(weight{kernel: long, layout: thisLayout, seed: uint32(i), size: 1, shared: i > 0})
	}
	m.commit(t)
	path := write(t, m.bytes())
	_, err := cachefile.Open(path)
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	problems, err := cachefile.Verify(path, nil)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.ErrorContains(t, &problems[0], "add up to")
}

// Looking each of them up would take as many steps as there are records, minutes in all.
func TestManyRecordsOfOneKeyAreVerified(t *testing.T) {
	var m maker
	for i := range 40_000 {
		m.add(weight{kernel: "k", layout: thisLayout, seed: uint32(i), size: 1, shared: i > 0})
	}
	m.commit(t)
	requireSound(t, write(t, m.bytes()))
}

func TestVerifyFindsEveryFlippedBit(t *testing.T) {
	good := sample(t)
	path := write(t, good)
	f := open(t, path)
	segments, err := f.Map()
	require.NoError(t, err)
	for _, s := range segments {
		meant := func(offset int64) bool {
			switch s.Kind {
			case cachefile.Header:
				return offset < 40 || offset >= 512 && offset < 640 || offset >= 1024 && offset < 1152
			case cachefile.Padding:
				return false
			}
			return true
		}
		step := max(1, s.Size/200)
		for offset := s.Offset; offset < s.Offset+s.Size; offset += step {
			b := append([]byte(nil), good...)
			b[offset] ^= 1 << (offset % 8)
			require.NoError(t, os.WriteFile(path, b, 0o600))
			problems, err := cachefile.Verify(path, nil)
			require.NoError(t, err)
			require.Equal(t, meant(offset), len(problems) > 0, "offset %d in the %s", offset, s.Kind)
		}
	}
}

func TestVerifyTellsOfEverythingThatIsWrong(t *testing.T) {
	b := sample(t)
	for _, e := range entries(t, open(t, write(t, b))) {
		b[e.Offset] ^= 1
		if e.Seed == 3 {
			b[e.Offset] ^= 1 // the next entry's too
		}
	}
	b[600] = 1
	b[len(b)-25] ^= 1
	var done, total int64
	problems, err := cachefile.Verify(write(t, b), func(d, n int64) { done, total = d, n })
	require.NoError(t, err)
	require.Equal(t, total, done)
	var names []string
	for i, p := range problems {
		names = append(names, p.Name)
		require.True(t, i == 0 || p.Offset >= problems[i-1].Offset)
	}
	require.Equal(t, []string{"", "convconv.bias", "dense", "dense", "tied", "scaled", ""}, names)
}

func TestVerifyLooksAtExecuTorchsIndex(t *testing.T) {
	good := executorchFile("a", "b")
	path := write(t, good)
	requireSound(t, path)
	trailer := len(good) - 20 - 2*25
	for name, c := range map[string]struct {
		damage  func(b []byte)
		message string
	}{
		"a cut-off entry":       {func(b []byte) { b[trailer+1]++ }, "cut off"},
		"the number":            {func(b []byte) { b[len(b)-12]-- }, "between the trailer's entries"},
		"a payload outside":     {func(b []byte) { b[trailer+5+7] = 1 }, "outside the file"},
		"payloads that overlap": {func(b []byte) { copy(b[trailer+25+5:], make([]byte, 8)) }, `overlaps`},
		"a name twice":          {func(b []byte) { b[trailer+25+4] = 'a' }, "twice"},
		"not aligned":           {func(b []byte) { b[trailer+25+5] = 32 }, "64 bytes"},
	} {
		b := append([]byte(nil), good...)
		c.damage(b)
		problems, err := cachefile.Verify(write(t, b), nil)
		require.NoError(t, err)
		require.Len(t, problems, 1, name)
		require.Contains(t, problems[0].Message, c.message, name)
	}
}

// A damaged block of a large index hides the entries in it, and no others.
func TestADamagedBlockHidesItsEntries(t *testing.T) {
	var m maker
	for i := range 200 {
		m.add(weight{kernel: fmt.Sprint("w", i), layout: thisLayout, size: 10, seed: uint32(i)})
	}
	m.commit(t)
	b := m.bytes()
	b[m.slots[0].IndexOffset+m.slots[0].IndexSize/2] ^= 1
	path := write(t, b)
	f := open(t, path)
	sound, damaged := 0, 0
	for e, err := range f.Entries() {
		if err != nil {
			require.ErrorIs(t, err, cachefile.ErrDamaged)
			damaged++
			continue
		}
		require.NoError(t, f.Check(e))
		sound++
	}
	require.Equal(t, 200, sound+damaged)
	require.Positive(t, sound)
	require.Positive(t, damaged)
	_, err := f.Info()
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	problems, err := cachefile.Verify(path, nil)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	dst := filepath.Join(t.TempDir(), "copy")
	require.ErrorIs(t, copyTo(f, dst, nil, cachefile.WriteOptions{}), cachefile.ErrDamaged)
	remaining := 0
	leaveOut := func(cachefile.Entry, error) error { remaining++; return nil }
	require.NoError(t, copyTo(f, dst, nil, cachefile.WriteOptions{LeftOut: leaveOut}))
	require.Equal(t, damaged, remaining)
	requireSound(t, dst)
}

// FuzzOpen: whatever a file has in it, looking into it neither fails badly nor reads elsewhere, and what is sound can
// be copied.
func FuzzOpen(f *testing.F) {
	small := maker{gap: 128}
	for i, w := range weights[:3] {
		w.size = 10 + i
		small.add(w)
		small.commit(f)
	}
	f.Add(small.bytes())
	f.Add(executorchFile("a", "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := write(t, b)
		problems, verr := cachefile.Verify(path, nil)
		c, err := cachefile.Open(path)
		if err != nil {
			require.True(t, verr != nil || len(problems) > 0)
			return
		}
		defer func() { require.NoError(t, c.Close()) }()
		_, _ = c.Map()
		dst := filepath.Join(t.TempDir(), "copy")
		if info, err := c.Info(); err == nil && info.Format == cachefile.Native && len(problems) == 0 {
			require.NoError(t, copyTo(c, dst, nil, cachefile.WriteOptions{}))
			requireSound(t, dst)
		}
	})
}
