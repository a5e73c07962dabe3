package format_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

const (
	blockSize  = 1 << 10
	recordSize = 164
)

// lying is a file in which some bytes lie at an offset.
type lying struct {
	bytes  []byte
	offset uint64
}

func (f lying) ReadAt(b []byte, offset int64) (int, error) {
	return bytes.NewReader(f.bytes).ReadAt(b, offset-int64(f.offset))
}

func decodeIndex(b []byte, slot format.Slot) (*format.Index, error) {
	return format.LoadIndex(lying{b, slot.IndexOffset}, slot)
}

// encodeIndex returns an index of generation 1 and the sum of its root.
func encodeIndex(t testing.TB, layouts []format.Layout, records []format.Record) ([]byte, format.Digest) {
	t.Helper()
	slot, b, err := format.EncodeGeneration(1, 0, layouts, records)
	require.NoError(t, err)
	return b[:slot.IndexSize], slot.IndexSum
}

func decodeWhole(b []byte, slot format.Slot) (*format.Index, error) {
	x, err := decodeIndex(b, slot)
	if err != nil {
		return nil, err
	}
	return x, x.Check()
}

func find(t testing.TB, x *format.Index, key format.Key) (matches []format.Record) {
	t.Helper()
	for r, err := range x.Find(key) {
		require.NoError(t, err)
		matches = append(matches, r)
	}
	return matches
}

// bodyOf returns where the body of an index begins, as its header has it, or false if it cannot be.
func bodyOf(index []byte) (body uint64, ok bool) {
	size := uint64(len(index))
	if size < 128 {
		return 0, false
	}
	le := binary.LittleEndian
	records, layouts := le.Uint64(index[16:]), uint64(le.Uint32(index[24:]))
	slots, text, sources := le.Uint64(index[32:]), le.Uint64(index[40:]), uint64(le.Uint32(index[56:]))
	if records > size || layouts > size || slots > size || text > size || sources > size {
		return 0, false
	}
	blocks := (records*recordSize + slots*4 + text + blockSize - 1) / blockSize
	body = (128 + layouts*32 + sources*16 + blocks*8 + 63) &^ 63
	return body, body+records*recordSize+slots*4+text == size
}

// seal puts the right sums into an index that was changed, as if whoever wrote it meant it.
func seal(index []byte) (sum format.Digest) {
	body, ok := bodyOf(index)
	if !ok {
		return digest.Of(index)
	}
	le := binary.LittleEndian
	sums := 128 + 32*uint64(le.Uint32(index[24:])) + 16*uint64(le.Uint32(index[56:]))
	for offset := body; offset < uint64(len(index)); offset += blockSize {
		block := index[offset:min(offset+blockSize, uint64(len(index)))]
		le.PutUint64(index[sums+(offset-body)/blockSize*8:], xxh3.Hash(block))
	}
	return digest.Of(index[:body])
}

// A large index is one of many blocks.
type large struct {
	bytes   []byte
	slot    format.Slot
	records []format.Record
}

func newLarge(t testing.TB, n int) large {
	l := large{}
	for i := range n {
		l.records = append(l.records, format.Record{
			Key: format.Key{Layout: layoutA.Fingerprint, Kernel: fmt.Sprint("layer.", i, ".weight"),
				Bias: fmt.Sprint("bias ", i/2), HasBias: i%2 == 0},
			Seed:   uint32(i),
			Offset: format.HeaderSize + 256*uint64(i/3), // some share a payload
			Size:   200,
			Sum:    format.Digest{byte(i), byte(i >> 8)},
		})
		if i%2 != 0 {
			l.records[i].Bias = ""
		}
		for n := range max(0, 20-i) / 2 { // more than are kept
			stamp := format.Digest{1, byte(i), byte(n)}
			l.records[i].AddCopy(format.Hashes{Kernel: stamp, Bias: stamp})
		}
	}
	index, sum := encodeIndex(t, []format.Layout{layoutA, layoutB}, slices.Clone(l.records))
	payloads := uint64(n+2) / 3
	l.bytes = index
	l.slot = format.Slot{Generation: 1, IndexOffset: format.HeaderSize + 256*payloads, IndexSize: uint64(len(index)),
		IndexSum: sum, Records: uint64(n), PayloadBytes: 200 * payloads}
	l.slot.End = l.slot.IndexOffset + l.slot.IndexSize + 100
	return l
}

// read reads every record, in order and by key: each is the one that was written, or an error that matches ErrDamaged.
func (l large) read(t testing.TB, b []byte) (failures int) {
	x, err := decodeIndex(b, l.slot)
	if err != nil {
		require.ErrorIs(t, err, format.ErrDamaged)
		return 1
	}
	require.Equal(t, []format.Layout{layoutA, layoutB}, x.Layouts())
	for i := range l.records {
		want := &l.records[i]
		switch r, err := x.Record(i); {
		case err != nil:
			require.ErrorIs(t, err, format.ErrDamaged)
			failures++
		case r != *want:
			t.Fatalf("record %d is %+v instead of %+v", i, r, want)
		}
		matches, failed := 0, false
		for r, err := range x.Find(want.Key) {
			switch {
			case err != nil:
				require.ErrorIs(t, err, format.ErrDamaged)
				failed = true
				failures++
			case r != *want:
				t.Fatalf("found %+v instead of %+v", r, want)
			default:
				matches++
			}
		}
		require.True(t, matches == 1 || matches == 0 && failed, "record %d was found %d times", i, matches)
	}
	if err := x.Check(); err != nil {
		require.ErrorIs(t, err, format.ErrDamaged)
		failures++
	}
	return failures
}

func TestALargeIndexReadsBackWithoutBeingCheckedAsAWhole(t *testing.T) {
	for _, n := range []int{0, 1, 2, 86, 5000} {
		l := newLarge(t, n)
		require.Zero(t, l.read(t, l.bytes), "%d records", n)
	}
}

func TestAFlippedBitOfALargeIndexIsFoundWhereItMatters(t *testing.T) {
	l := newLarge(t, 2000)
	body, ok := bodyOf(l.bytes)
	require.True(t, ok)
	b := slices.Clone(l.bytes)
	step := uint64(2999)
	if testing.Short() {
		step = 9973
	}
	flipped := 0
	for offset := uint64(0); offset < uint64(len(b)); {
		b[offset] ^= 1 << (offset % 8)
		require.NotZero(t, l.read(t, b), "byte %d", offset)
		b[offset] ^= 1 << (offset % 8)
		flipped++
		if offset += 1; offset >= body {
			offset += step
		}
	}
	t.Logf("%d bits flipped in %d bytes", flipped, len(b))
}

func TestAPrefixOfAnIndexIsRefused(t *testing.T) {
	l := newLarge(t, 300)
	for n := range l.bytes {
		_, err := decodeWhole(l.bytes[:n], l.slot)
		require.Error(t, err, "the first %d bytes", n)
		slot := l.slot
		slot.IndexSize = uint64(n) // as if it were all
		_, err = decodeIndex(l.bytes[:n], slot)
		require.ErrorIs(t, err, format.ErrDamaged, "the first %d bytes", n)
	}
}

// A damaged block does not affect other blocks.
func TestABlockWithAWrongSumIsRefusedAlone(t *testing.T) {
	l := newLarge(t, 2000)
	body, _ := bodyOf(l.bytes)
	b := slices.Clone(l.bytes)
	b[128+2*32+16+3*8]++ // the sum of the fourth
	slot := l.slot
	slot.IndexSum = digest.Of(b[:body])
	x, err := decodeIndex(b, slot)
	require.NoError(t, err)
	for i, want := range l.records {
		r, err := x.Record(i)
		// A record is read together with its neighbours.
		src, dst := (i-1)*recordSize, (i+2)*recordSize
		if dst > 3*blockSize && src < 4*blockSize {
			require.ErrorIs(t, err, format.ErrDamaged, "record %d", i)
			continue
		}
		require.NoError(t, err, "record %d", i)
		require.Equal(t, want, r)
	}
	require.ErrorIs(t, x.Check(), format.ErrDamaged)
}

// A search that reaches a damaged block fails, and does not skip it.
func TestASearchIsStoppedByDamageOnItsWay(t *testing.T) {
	l := newLarge(t, 2000)
	body, _ := bodyOf(l.bytes)
	const damaged = 100 // a block of records
	b := slices.Clone(l.bytes)
	b[body+damaged*blockSize+blockSize/2] ^= 1
	x, err := decodeIndex(b, l.slot)
	require.NoError(t, err)
	stopped, matches := 0, 0
	for i := range l.records {
		key := l.records[i].Key
		for r, err := range x.Find(key) {
			if err == nil {
				require.Equal(t, l.records[i], r)
				matches++
			}
		}
		key.Kernel += " of another model"
		for _, err := range x.Find(key) {
			require.ErrorIs(t, err, format.ErrDamaged, "%q is not in the index", key.Kernel)
			stopped++
		}
	}
	require.NotZero(t, stopped)
	require.Greater(t, matches, 1900)
}

// reading is a file that is read by a function.
type reading func(b []byte, offset int64) (int, error)

func (r reading) ReadAt(b []byte, offset int64) (int, error) { return r(b, offset) }

// What nobody looks at is not read, and what cannot be read is an error. What is read again later is checked again.
func TestAnIndexIsReadAsItIsNeeded(t *testing.T) {
	l := newLarge(t, 20_000)
	disk := slices.Clone(l.bytes)
	reads, bytesRead := 0, 0
	bad := uint64(math.MaxUint64)
	x, err := format.LoadIndex(reading(func(b []byte, offset int64) (int, error) {
		start := uint64(offset) - l.slot.IndexOffset
		if start <= bad && bad < start+uint64(len(b)) {
			return 0, syscall.EIO
		}
		reads, bytesRead = reads+1, bytesRead+copy(b, disk[start:])
		return len(b), nil
	}), l.slot)
	require.NoError(t, err)
	require.Less(t, bytesRead, len(disk)/20)
	reads = 0
	require.Equal(t, []format.Record{l.records[77]}, find(t, x, l.records[77].Key))
	require.Less(t, reads, 10)
	require.NoError(t, x.Check())
	require.Greater(t, bytesRead, len(disk))

	last := len(l.records) - 1
	require.Equal(t, []format.Record{l.records[last]}, find(t, x, l.records[last].Key))
	bad = x.RecordOffset(0) + 100
	_, err = x.Record(0)
	require.ErrorIs(t, err, syscall.EIO)
	bad = math.MaxUint64
	r, err := x.Record(0)
	require.NoError(t, err)
	require.Equal(t, l.records[0], r)
	_, err = x.Record(last)
	require.NoError(t, err, "another page takes the place of what is to be read again")
	disk[x.RecordOffset(10_000)+50] ^= 1
	_, err = x.Record(10_000)
	require.ErrorIs(t, err, format.ErrDamaged)
}

func TestAnIndexIsReadByManyAtOnce(t *testing.T) {
	l := newLarge(t, 3000)
	x, err := decodeIndex(l.bytes, l.slot)
	require.NoError(t, err)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for _, i := range rand.Perm(len(l.records)) {
				for r, err := range x.Find(l.records[i].Key) {
					if err != nil || r != l.records[i] {
						t.Errorf("record %d: %+v, %v", i, r, err)
					}
				}
			}
			if err := x.Check(); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
}

// What Find finds is what Lost does not name, whatever a table has in it.
func TestLostRecordsAreThoseThatAreNotFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	misses := 0
	for range 300 {
		n := 1 + random.IntN(12)
		records := make([]format.Record, n)
		for i := range records {
			key := format.Key{Kernel: string(rune('a' + random.IntN(n)))}
			records[i] = format.Record{Key: key, Seed: uint32(i), Size: 1,
				Offset: uint64(format.HeaderSize + 128*i)}
		}
		b, _ := encodeIndex(t, []format.Layout{{}}, records)
		body, _ := bodyOf(b)
		table := b[body+uint64(n)*recordSize:][:4*binary.LittleEndian.Uint64(b[32:])]
		for range random.IntN(4) { // two slots change places, or one is written over
			src, dst := 4*random.IntN(len(table)/4), 4*random.IntN(len(table)/4)
			saved := binary.LittleEndian.Uint32(table[dst:])
			copy(table[dst:dst+4], table[src:src+4])
			if random.IntN(2) == 0 {
				binary.LittleEndian.PutUint32(table[src:], saved)
			}
		}
		x, err := decodeWhole(b, format.Slot{Generation: 1, IndexSize: uint64(len(b)), IndexSum: seal(b),
			Records: uint64(n), PayloadBytes: uint64(n),
			IndexOffset: 1 << 20, End: 1<<20 + uint64(len(b))})
		require.NoError(t, err)
		var want []int
		for i := range records {
			if !slices.Contains(find(t, x, records[i].Key), records[i]) {
				want = append(want, i)
			}
		}
		require.Equal(t, want, x.Lost())
		if want == nil {
			misses++
		}
	}
	require.Positive(t, misses)
	require.Less(t, misses, 300)
}

func TestManyLayoutsOfOneLongDescriptionAreRefused(t *testing.T) {
	var layouts []format.Layout
	for i := range 100 {
		layouts = append(layouts,
			format.Layout{Fingerprint: format.Digest{byte(i)}, Description: strings.Repeat("d", 1<<20)})
	}
	b, sum := encodeIndex(t, layouts, nil)
	_, err := decodeIndex(b, format.Slot{Generation: 1, IndexSize: uint64(len(b)), IndexSum: sum})
	require.ErrorIs(t, err, format.ErrDamaged)
}

func TestAnIndexThatContradictsItselfIsRefused(t *testing.T) {
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	const records, rows = 5, 256 // header, layouts, a source, one block sum, zeros
	for name, damage := range map[string]func(index []byte, slot *format.Slot){
		"payload behind the end":      func(b []byte, _ *format.Slot) { put64(b[rows+4*recordSize:], 1<<20) },
		"payload size overflows":      func(b []byte, _ *format.Slot) { put64(b[rows+8:], 1<<64-64) },
		"payload in the header":       func(b []byte, _ *format.Slot) { put64(b[rows:], 0) },
		"payload not aligned":         func(b []byte, _ *format.Slot) { put64(b[rows:], 4097) },
		"payloads overlap":            func(b []byte, _ *format.Slot) { put64(b[rows+8:], 500) },
		"payload overlaps the index":  func(b []byte, _ *format.Slot) { put64(b[rows+4*recordSize+8:], 1200) },
		"empty payload":               func(b []byte, _ *format.Slot) { put64(b[rows+8:], 0) },
		"unknown layout":              func(b []byte, _ *format.Slot) { b[rows+40] = 2 },
		"unknown flag":                func(b []byte, _ *format.Slot) { b[rows+42] |= 0x80 },
		"unknown source":              func(b []byte, _ *format.Slot) { put32(b[rows+48:], 2) },
		"sources beyond the index":    func(b []byte, _ *format.Slot) { put32(b[56:], 1<<31) },
		"name outside the strings":    func(b []byte, _ *format.Slot) { put32(b[rows+52:], 1<<31) },
		"name of 4 GiB":               func(b []byte, _ *format.Slot) { put32(b[rows+56:], 1<<32-1) },
		"description outside":         func(b []byte, _ *format.Slot) { put32(b[128+16:], 1<<31) },
		"evidence outside":            func(b []byte, _ *format.Slot) { put32(b[128+24:], 1<<31) },
		"another record count":        func(_ []byte, s *format.Slot) { s.Records++ },
		"records beyond the index":    func(b []byte, s *format.Slot) { put64(b[16:], 500); s.Records = 500 },
		"record count overflows":      func(b []byte, s *format.Slot) { put64(b[16:], 1<<60); s.Records = 1 << 60 },
		"layouts beyond the index":    func(b []byte, _ *format.Slot) { put32(b[24:], 1<<31) },
		"table not a power of two":    func(b []byte, _ *format.Slot) { put64(b[32:], 15); put64(b[40:], 34) },
		"table too small":             func(b []byte, _ *format.Slot) { put64(b[32:], 8); put64(b[40:], 62) },
		"table beyond the index":      func(b []byte, _ *format.Slot) { put64(b[32:], 1<<62) },
		"table speaks of record 1000": func(b []byte, _ *format.Slot) { put32(b[rows+records*recordSize:], 1000) },
		"strings beyond the index":    func(b []byte, _ *format.Slot) { put64(b[40:], 1<<63) },
		"another record size":         func(b []byte, _ *format.Slot) { put32(b[28:], 200) },
		"another block size":          func(b []byte, _ *format.Slot) { put64(b[48:], 8192) },
		"another generation":          func(b []byte, _ *format.Slot) { b[8]++ },
		"fewer payload bytes":         func(_ []byte, s *format.Slot) { s.PayloadBytes-- },
	} {
		t.Run(name, func(t *testing.T) {
			file, slot := sampleFile(t)
			index := file[slot.IndexOffset : slot.IndexOffset+slot.IndexSize]
			body, ok := bodyOf(index)
			require.True(t, ok)
			require.EqualValues(t, rows, body)
			damage(index, &slot)
			slot.IndexSum = seal(index)
			_, err := decodeWhole(index, slot)
			require.ErrorIs(t, err, format.ErrDamaged)
			readAnything(t, index, slot)
		})
	}
}

// readAnything reads an arbitrary index record by record: every payload that it serves lies within the file.
func readAnything(t testing.TB, index []byte, slot format.Slot) {
	x, err := decodeIndex(index, slot)
	if err != nil {
		return
	}
	x.Layouts()
	for i := range x.Len() {
		r, err := x.Record(i)
		if err != nil {
			require.ErrorIs(t, err, format.ErrDamaged)
			continue
		}
		require.GreaterOrEqual(t, r.Offset, uint64(format.HeaderSize))
		require.LessOrEqual(t, r.Offset+r.Size, slot.End)
		require.Equal(t, format.CleanName(r.SourceName), r.SourceName)
		for got, err := range x.Find(r.Key) {
			if err == nil {
				require.LessOrEqual(t, got.Offset+got.Size, slot.End)
			}
		}
	}
}

// What LoadIndex accepts can be read record by record, and when Check accepts it no accessor fails.
func FuzzDecodeIndex(f *testing.F) {
	file, slot := sampleFile(f)
	f.Add(file[slot.IndexOffset:slot.IndexOffset+slot.IndexSize], slot.Records, slot.PayloadBytes)
	empty, _ := encodeIndex(f, nil, nil)
	f.Add(empty, uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, records, payload uint64) {
		b = slices.Clone(b)
		s := slot
		s.IndexSize, s.IndexSum, s.Records, s.PayloadBytes = uint64(len(b)), seal(b), records, payload
		s.End = s.IndexOffset + s.IndexSize + 20
		readAnything(t, b, s)
		x, err := decodeWhole(b, s)
		if err != nil {
			require.ErrorIs(t, err, format.ErrDamaged)
			return
		}
		for i := range x.Len() {
			r, err := x.Record(i)
			require.NoError(t, err)
			find(t, x, r.Key)
		}
	})
}

// Damage anywhere in a large index is found, or does not change the result of a read.
func FuzzDamagedIndex(f *testing.F) {
	l := newLarge(f, 400)
	f.Add(uint32(0), []byte{1})
	f.Add(uint32(128+2*32), []byte{0xff, 0xff})
	f.Add(uint32(len(l.bytes)-3), []byte{0x80, 0, 1})
	f.Fuzz(func(t *testing.T, offset uint32, xor []byte) {
		b := slices.Clone(l.bytes)
		changed := false
		for i, v := range xor {
			if p := int(offset) + i; p < len(b) {
				b[p] ^= v
				changed = changed || v != 0
			}
		}
		require.Equal(t, changed, l.read(t, b) > 0)
	})
}

func TestNamesThatFitCanBeEncoded(t *testing.T) {
	for length, fits := range map[int]bool{63 << 20: true, 65 << 20: false} {
		r := format.Record{Key: format.Key{Kernel: strings.Repeat("n", length)}, Offset: format.HeaderSize, Size: 1}
		require.Equal(t, fits, format.NamesFit(1, uint64(length)))
		layouts := []format.Layout{{Evidence: strings.Repeat("e", 512<<10)}}
		_, _, err := format.EncodeGeneration(1, 0, layouts, []format.Record{r})
		require.Equal(t, fits, err == nil)
	}
}

func TestARecordThatIsSealedAgainKeepsTheProgramsOfItsModelAlone(t *testing.T) {
	model, stranger, program := format.Digest{1}, format.Digest{2}, format.Digest{3}
	r := format.Record{Key: format.Key{Kernel: "k", Bias: "b", HasBias: true}}
	r.AddCopy(format.Hashes{Kernel: format.Digest{4}, Bias: format.Digest{5}}) // where the model was packed
	r.Seal(model, program)
	sealed := r
	require.Equal(t, 1, r.Copies.Len())
	inProgram := r
	inProgram.Seal(program)
	require.True(t, r.HasStamps(inProgram.Stamps))
	r.Seal(model, program)
	require.Equal(t, sealed, r)
	r.Seal(model)
	require.Equal(t, sealed, r)
	r.Seal(stranger)
	require.Zero(t, r.Copies.Len())
}

// A kernel may be packed by any number of delegates of a program.
func TestARecordKeepsTheSealsOfAllItsPrograms(t *testing.T) {
	r := format.Record{Key: format.Key{Layout: layoutA.Fingerprint, Kernel: "k"}, Offset: format.HeaderSize, Size: 64}
	var programs []format.Digest
	for i := range 3 * format.MostCopies {
		programs = append(programs, format.Digest{1, byte(i)})
	}
	r.Seal(format.Digest{2}, programs...)
	require.Equal(t, len(programs), r.Copies.Len())
	slot, index, err := format.EncodeGeneration(1, format.HeaderSize+64, []format.Layout{layoutA}, []format.Record{r})
	require.NoError(t, err)
	x, err := decodeWhole(index[:slot.IndexSize], slot)
	require.NoError(t, err)
	decoded, err := x.Record(0)
	require.NoError(t, err)
	require.Equal(t, r, decoded)
}
