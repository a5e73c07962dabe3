package format_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// A field is a line of a table of docs/format.md.
type field struct {
	offset, size int
	meaning      string
}

// nameLength is n of the tables.
const nameLength = 3

// tables returns the tables of docs/format.md by what they are of: the last bold words before them.
func tables(t *testing.T) map[string][]field {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "format.md"))
	require.NoError(t, err)
	bold := regexp.MustCompile(`\*\*([a-z' ]+)\*\*`)
	number := func(s string) int {
		sum := 0
		for part := range strings.SplitSeq(s, "+") {
			n, err := strconv.Atoi(strings.Replace(strings.TrimSpace(part), "n", strconv.Itoa(nameLength), 1))
			require.NoError(t, err, s)
			sum += n
		}
		return sum
	}
	tables := map[string][]field{}
	title := ""
	for line := range strings.Lines(string(b)) {
		if rows := bold.FindAllStringSubmatch(line, -1); rows != nil {
			title = rows[len(rows)-1][1]
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || strings.Contains(line, "---") || strings.Contains(line, "| offset |") {
			continue
		}
		require.Len(t, cells, 3, line)
		tables[title] = append(tables[title], field{number(cells[0]), number(cells[1]), strings.TrimSpace(cells[2])})
	}
	return tables
}

func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func u64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// different returns the digest that is n in each byte.
func different(n byte) format.Digest {
	return format.Digest(bytes.Repeat([]byte{n}, 16))
}

// Each field in a table of docs/format.md has the offset, size and meaning in the table; the fields are complete and
// follow each other without gaps. values gives each field's bytes by how its line begins.
func TestTheTablesOfTheFormatAreWhatIsEncoded(t *testing.T) {
	layouts := []format.Layout{
		{Fingerprint: different(1), Description: "first"}, {Fingerprint: different(2), Description: "second one",
			Evidence: "seen"},
	}
	record := format.Record{
		Key: format.Key{Layout: different(2), FingerprintID: 0x31, Packing: different(3), Kernel: "weights",
			Bias: "the bias", HasBias: true},
		Seed: 0x32, Flags: format.Tied | format.Variant, Offset: 8192, Size: 0x333, Sum: different(4),
		Source: different(5), SourceName: "abc",
		Stamps:    format.Hashes{Kernel: different(6), Bias: different(8)},
		Digests:   format.Hashes{Kernel: different(7), Bias: different(9)},
		Family:    packing.Family{Operator: 11, Input: 12, Kernel: 13, Bias: 14, Output: 15},
		LeastSize: 0x222, PackedAt: 0x6666, UsedAt: 0x7777,
	}
	original := record // of another source
	copied := format.Hashes{Kernel: different(14), Bias: different(15)}
	record.AddCopy(copied)
	original.Offset, original.Source, original.SourceName = 4096, different(10), "first.tflite"
	slot, block, err := format.EncodeGeneration(6, 8192+0x333, layouts, []format.Record{original, record})
	require.NoError(t, err)
	slot.DeadBytes = 0x4444
	encodedSlot, slotAt := slot.Encode(id)
	index, err := decodeIndex(block[:slot.IndexSize], slot)
	require.NoError(t, err)
	recordAt := index.RecordOffset(1)
	const sourceNames = "\x0cfirst.tflite\x03abc"
	copies := slices.Concat(u32(1), copied.Kernel[:], copied.Bias[:])
	size := uint64(len("firstsecond oneseenweightsthe bias"+sourceNames) + len(copies))
	strings := block[slot.IndexSize-size : slot.IndexSize]
	offset := func(s string) []byte { return u32(uint32(bytes.Index(strings, []byte(s)))) }
	trailerAt := slot.IndexOffset + slot.IndexSize
	require.Equal(t, format.EncodeTrailer([]format.TrailerEntry{format.NativeTrailer(trailerAt)}, trailerAt),
		block[slot.IndexSize:])
	require.Len(t, "abc", nameLength)
	listed := []format.TrailerEntry{{Name: "abc", Offset: 8192, Size: 0x333, Seed: 0x32}}
	trailer := format.EncodeTrailer(listed, trailerAt)

	seenThere := format.Evidence{Machines: []format.Digest{different(11)}, Families: []format.SeenFamily{
		{Family: record.Family, Sum: different(12)}, {Family: packing.Family{Operator: 12}, Sum: different(13)},
	}}
	evidence := []byte(seenThere.Encode())

	require.EqualValues(t, 512, slotAt)
	header := format.NewHeader(id)
	odd := format.Slot{Generation: 7, IndexOffset: slot.IndexOffset, End: slot.End}
	encodedOdd, oddAt := odd.Encode(id)
	copy(header[slotAt:], encodedSlot)
	copy(header[oddAt:], encodedOdd)

	for table, c := range map[string]struct {
		encoded []byte
		values  map[string][]byte
	}{
		"header": {header, map[string][]byte{
			"magic":                    []byte("xpwc\r\n\x1a\x00"),
			"version: 4":               u32(4),
			"size of the header: 4096": u32(4096),
			"the file's identity":      id[:],
			"hash of bytes 0 to 31":    u64(xxh3.Hash(header[:32])),
			"slot of even generations": encodedSlot,
			"slot of odd generations":  encodedOdd,
		}},
		"slot": {encodedSlot, map[string][]byte{
			"generation":                u64(6),
			"file offset of the index":  u64(slot.IndexOffset),
			"size of the index":         u64(slot.IndexSize),
			"hash of the root":          hash(block[:index.RecordOffset(0)]),
			"end: the size of the file": u64(slot.IndexOffset + uint64(len(block))),
			"number of records":         u64(2),
			"bytes of all payloads":     u64(2 * 0x333),
			"dead bytes":                u64(0x4444),
			"hash of bytes 0 to 119":    u64(xxh3.HashSeed(encodedSlot[:120], binary.LittleEndian.Uint64(id[:8]))),
		}},
		"index header": {block[:128], map[string][]byte{
			"magic":                 []byte("xpwcidx\x04"),
			"generation":            u64(6),
			"number of records":     u64(2),
			"number of layouts":     u32(2),
			"size of a record: 164": u32(164),
			"number of sources":     u32(2),
			"offset of the sources": offset(sourceNames),
			"length of the sources": u32(uint32(len(sourceNames))),
			"offset of the copies":  offset(string(copies)),
			"length of the copies":  u32(uint32(len(copies))),
			"number of table slots": u64((slot.IndexSize - recordAt - 164 - uint64(len(strings))) / 4),
			"size of the strings":   u64(uint64(len(strings))),
			"size of a block: 1024": u64(1024),
		}},
		"layout": {block[128+32 : 128+64], map[string][]byte{
			"fingerprint":               layouts[1].Fingerprint[:],
			"offset of a description":   offset("second one"),
			"length of the description": u32(10),
			"offset of the evidence":    offset("seen"),
			"length of the evidence":    u32(4),
		}},
		"source": {block[128+2*32+16 : 128+2*32+32], map[string][]byte{
			"hash of where kernels come from": record.Source[:],
		}},
		"copy": {strings[len(strings)-len(copies):], map[string][]byte{
			"number of the record":            u32(1),
			"hash of the kernel's stamp":      copied.Kernel[:],
			"hash of the bias' stamp, zero w": copied.Bias[:],
		}},
		"sources' names": {[]byte(sourceNames[len(sourceNames)-1-nameLength:]), map[string][]byte{
			"length of the name": {nameLength},
			"name, printable":    []byte("abc"),
		}},
		"record": {block[recordAt : recordAt+164], map[string][]byte{
			"file offset of the payload":         u64(8192),
			"size of the payload":                u64(0x333),
			"hash of the payload":                record.Sum[:],
			"layout, an index":                   {1, 0},
			"`seed`":                             u32(0x32),
			"`fingerprint_id`":                   u32(0x31),
			"flags: 1 has a bias, 2 tied, 4 var": {1 + 2 + 4},
			"offset of the kernel's name":        offset("weights"),
			"length of the kernel's name":        u32(7),
			"offset of the bias' name":           offset("the bias"),
			"length of the bias' name":           u32(8),
			"digest of the packing identity":     record.Packing[:],
			"source, an index":                   u32(1),
			"hash of the kernel's stamp":         record.Stamps.Kernel[:],
			"digest of the kernel's content":     record.Digests.Kernel[:],
			"hash of the bias' stamp":            record.Stamps.Bias[:],
			"digest of the bias' content":        record.Digests.Bias[:],
			"when it was packed":                 u32(0x6666),
			"when a writer last found it in use": u32(0x7777),
			"family of the packing identity":     {11, 12, 13, 14, 15},
			"least size of the payload":          u64(0x222),
		}},
		"machine": {evidence[:18], map[string][]byte{
			"digest of architecture, processor": seenThere.Machines[0][:],
			"1 (readers take 0 too)":            {1},
			"number of families":                {2},
		}},
		"seen family": {evidence[18 : 18+21], map[string][]byte{
			"family, as in a record":     {11, 12, 13, 14, 15},
			"hash of what XNNPACK packs": seenThere.Families[0].Sum[:],
		}},
		"trailer entry": {trailer[:24+nameLength], map[string][]byte{
			"length of the name":         u32(nameLength),
			"name":                       []byte("abc"),
			"file offset of the payload": u64(8192),
			"size of the payload":        u64(0x333),
			"seed":                       u32(0x32),
		}},
		"note": {format.EncodeNote([]byte("abc")), map[string][]byte{
			"text":               []byte("abc"),
			"length of the text": u32(nameLength),
			"magic `xpwcnote`":   []byte("xpwcnote"),
		}},
		"footer": {trailer[len(trailer)-format.FooterSize:], map[string][]byte{
			"file offset of the first entry": u64(trailerAt),
			"number of entries":              u32(1),
			"magic 0x58505743":               u32(0x58505743),
			"version: 2":                     u32(2),
		}},
	} {
		t.Run(table, func(t *testing.T) {
			end, seen := 0, map[string]bool{}
			for _, f := range tables(t)[table] {
				require.Equal(t, end, f.offset, "%q begins where the field before it ends", f.meaning)
				end = f.offset + f.size
				require.LessOrEqual(t, end, len(c.encoded), f.meaning)
				want := make([]byte, f.size)
				if f.meaning != "zero" {
					name := ""
					for begins := range c.values {
						if len(begins) > len(name) && bytes.HasPrefix([]byte(f.meaning), []byte(begins)) {
							name = begins
						}
					}
					require.NotEmpty(t, name, "%q is not tested", f.meaning)
					require.False(t, seen[name], "%q is there twice", name)
					seen[name] = true
					want = c.values[name]
				}
				require.Equal(t, fmt.Sprintf("% x", want), fmt.Sprintf("% x", c.encoded[f.offset:end]), f.meaning)
			}
			require.Equal(t, len(c.encoded), end, "the table has all of it")
			require.Len(t, seen, len(c.values))
		})
	}
	require.Len(t, tables(t), 13)
}

func hash(b []byte) []byte {
	h := xxh3.Hash128(b).Bytes()
	return h[:]
}
