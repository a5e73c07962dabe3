package bundle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// A zip ends with its directory and a record that locates it. Numbers are little-endian. Package archive/zip reads the
// same, but allocates memory for as many members as that record claims.
const (
	zipMagic     = "PK\x03\x04" // begins a member, and so a zip that has one
	memberMagic  = "PK\x01\x02" // begins a member's entry in the directory
	endMagic     = "PK\x05\x06" // begins the record at the end
	end64Magic   = "PK\x06\x06" // begins the record for more than 4 GiB
	locatorMagic = "PK\x06\x07" // begins what locates that one, before the record at the end

	localSize   = 30 // of what begins a member, without its name
	memberSize  = 46 // of an entry in the directory, without its name
	endSize     = 22
	end64Size   = 56
	locatorSize = 20

	stored     = 0 // compression method
	zip64Extra = 1 // identifier of the extra field with numbers of 64 bits
)

// tfliteIdentifier is at byte 4 of a .tflite.
const tfliteIdentifier = "TFL3"

var little = binary.LittleEndian

// readRange reads some bytes of the file, which must lie in it.
func readRange(r io.ReaderAt, size int64, offset, n uint64, part string) ([]byte, error) {
	if offset > uint64(size) || n > uint64(size)-offset {
		return nil, malformed("%s at byte %d (%d bytes) lies outside the file's %d bytes", part, offset, n, size)
	}
	b := make([]byte, n)
	if read, err := r.ReadAt(b, int64(offset)); read < len(b) {
		return nil, err
	}
	return b, nil
}

func readTask(r io.ReaderAt, size int64) (*Bundle, error) {
	e, err := readEnd(r, size)
	if err != nil {
		return nil, err
	}
	directory, members, err := e.readDirectory(r, size)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Format: Task}
	for range members {
		if len(directory) < memberSize || !bytes.HasPrefix(directory, []byte(memberMagic)) {
			return nil, malformed("its directory ends before its %d members", members)
		}
		lengths := [3]int{} // of the name, the extra fields and the comment
		end := memberSize
		for i := range lengths {
			lengths[i] = int(little.Uint16(directory[28+2*i:]))
			end += lengths[i]
		}
		if end > len(directory) {
			return nil, malformed("a member's name lies outside the directory")
		}
		name := string(directory[memberSize:][:lengths[0]])
		s, err := readMember(r, size, directory[:memberSize], name, directory[memberSize+lengths[0]:][:lengths[1]])
		if err != nil {
			return nil, err
		}
		if directory = directory[end:]; !strings.HasSuffix(name, "/") {
			b.Sections = append(b.Sections, s)
		}
	}
	return b, nil
}

// A zipEnd is what a zip ends with.
type zipEnd struct {
	record  []byte // that locates the directory, with its comment
	offset  int64  // of the record in the file
	locator []byte // of the record for more than 4 GiB; nil if there is none
}

func readEnd(r io.ReaderAt, size int64) (e zipEnd, err error) {
	tailSize := min(uint64(size), locatorSize+endSize+math.MaxUint16) // with the longest comment
	tail, err := readRange(r, size, uint64(size)-tailSize, tailSize, "the end")
	if err != nil {
		return e, err
	}
	position := bytes.LastIndex(tail, []byte(endMagic))
	if position < 0 || len(tail)-position < endSize {
		return e, malformed("a zip without a directory; is it whole?")
	}
	e = zipEnd{record: tail[position:], offset: size - int64(len(tail)-position)}
	if head := tail[:position]; len(head) >= locatorSize {
		if locator := head[len(head)-locatorSize:]; bytes.HasPrefix(locator, []byte(locatorMagic)) {
			e.locator = locator
		}
	}
	return e, nil
}

// readDirectory returns the zip's directory and its number of members.
func (e zipEnd) readDirectory(r io.ReaderAt, size int64) (directory []byte, members uint64, err error) {
	members, length, offset := uint64(little.Uint16(e.record[10:])), uint64(little.Uint32(e.record[12:])),
		uint64(little.Uint32(e.record[16:]))
	if e.locator != nil {
		end, err := readRange(r, size, little.Uint64(e.locator[8:]), end64Size, "the zip's last record")
		if err != nil {
			return nil, 0, err
		}
		if !bytes.HasPrefix(end, []byte(end64Magic)) {
			return nil, 0, malformed("the zip's last record is not where it should be")
		}
		members, length, offset = little.Uint64(end[32:]), little.Uint64(end[40:]), little.Uint64(end[48:])
	}
	if members > mostSections || length > mostHeader {
		return nil, 0, malformed("%d members in a directory of %d bytes", members, length)
	}
	directory, err = readRange(r, size, offset, length, "the directory")
	return directory, members, err
}

// readMember describes a member of the zip by its entry in the directory. A compressed one is no model: it cannot be
// mapped.
func readMember(r io.ReaderAt, size int64, entry []byte, name string, extra []byte) (s Section, err error) {
	method := little.Uint16(entry[10:])
	compressed, uncompressed := uint64(little.Uint32(entry[20:])), uint64(little.Uint32(entry[24:]))
	offset := uint64(little.Uint32(entry[42:]))
	readWide(extra, &uncompressed, &compressed, &offset)
	local, err := readRange(r, size, offset, localSize, "a member")
	if err != nil {
		return s, err
	}
	if !bytes.HasPrefix(local, []byte(zipMagic)) {
		return s, malformed("%q is not at byte %d", name, offset)
	}
	offset += localSize + uint64(little.Uint16(local[26:])) + uint64(little.Uint16(local[28:]))
	if offset > uint64(size) || compressed > uint64(size)-offset {
		return s, malformed("%q at byte %d (%d bytes) lies outside the file's %d bytes", name, offset, compressed, size)
	}
	s = Section{Name: name, Kind: Unknown, Type: fmt.Sprintf("compressed by method %d", method), Offset: int64(offset),
		Size: int64(compressed)}
	if method != stored {
		return s, nil
	}
	if compressed != uncompressed {
		return s, malformed("%q is stored, and has %d and %d bytes", name, compressed, uncompressed)
	}
	const identified = uint64(4 + len(tfliteIdentifier))
	head, err := readRange(r, size, offset, min(compressed, identified), "a member")
	if err != nil {
		return s, err
	}
	s.Kind, s.Type = Data, "stored"
	switch {
	case len(head) == int(identified) && string(head[4:]) == tfliteIdentifier:
		s.Kind, s.Type = Model, "TFLiteModel"
		if role := strings.ToLower(name); strings.HasPrefix(role, rolePrefix) {
			s.Role = role
		}
	case name == "TOKENIZER_MODEL":
		s.Kind, s.Type = Tokenizer, "SP_Tokenizer"
	case name == "METADATA":
		s.Kind, s.Type = Metadata, "LlmMetadataProto"
	}
	return s, nil
}

// readWide replaces numbers that 32 bits cannot hold with those of the extra field for them, which has only these.
func readWide(extra []byte, numbers ...*uint64) {
	for len(extra) >= 4 {
		id, length := little.Uint16(extra), int(little.Uint16(extra[2:]))
		if extra = extra[4:]; length > len(extra) {
			return
		}
		if field := extra[:length]; id == zip64Extra {
			for _, n := range numbers {
				if *n == math.MaxUint32 && len(field) >= 8 {
					*n, field = little.Uint64(field), field[8:]
				}
			}
			return
		}
		extra = extra[length:]
	}
}
