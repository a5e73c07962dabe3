package bundle

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
)

// A bundle of LiteRT-LM begins with 32 bytes: the magic, three numbers of 32 bits with the version, 4 bytes of padding,
// and a number of 64 bits with the end of the header, a flatbuffer that begins after them. Numbers are little-endian.
const (
	magic        = "LITERTLM"
	majorVersion = 1
	headerStart  = 32
)

// The slots of the header's tables, in the order in which its schema declares fields.
const (
	// LiteRTLMMetaData
	rootSystem   = 0
	rootSections = 1
	// SystemMetadata, SectionMetadata
	systemEntries  = 0
	sectionObjects = 0
	// SectionObject
	objectItems = 0
	objectBegin = 1
	objectEnd   = 2
	objectType  = 3
	// KeyValuePair
	pairKey       = 0
	pairValueType = 1
	pairValue     = 2
	// each value is a table with the value in its first slot
	valueSlot = 0
)

// sectionTypes are the types of sections by their numbers.
var sectionTypes = []struct {
	name string
	kind Kind
}{
	{"NONE", Unknown},
	{"GenericBinaryData", Data},
	{"Deprecated", Unused},
	{"TFLiteModel", Model},
	{"SP_Tokenizer", Tokenizer},
	{"LlmMetadataProto", Metadata},
	{"HF_Tokenizer_Zlib", Tokenizer},
	{"TFLiteWeights", Weights},
	{"EmbeddingMetadataProto", Metadata},
	{"ExecutorMetadataProto", Metadata},
	{"TtsMetadataProto", Metadata},
	{"AsrMetadataProto", Metadata},
}

// roleKey is the key of the attribute that tells the role of a model, and rolePrefix begins each role.
const (
	roleKey    = "model_type"
	rolePrefix = "tf_lite_"
)

func readLiteRTLM(r io.ReaderAt, size int64, head []byte) (*Bundle, error) {
	if len(head) < headerStart {
		return nil, malformed("it ends within its first %d bytes", headerStart)
	}
	number := func(offset int) uint32 { return little.Uint32(head[offset:]) }
	b := &Bundle{Format: LiteRTLM, Version: fmt.Sprintf("%d.%d.%d", number(8), number(12), number(16))}
	if number(8) != majorVersion {
		return nil, fmt.Errorf("%w: %s, and %d is known", ErrVersion, b.Version, majorVersion)
	}
	end := little.Uint64(head[24:])
	if end < headerStart || end > uint64(size) || end-headerStart > mostHeader {
		return nil, malformed("its header ends at byte %d of %d, or has more than %d bytes", end, size, mostHeader)
	}
	header := make([]byte, end-headerStart)
	if _, err := r.ReadAt(header, headerStart); err != nil {
		return nil, err
	}
	p := headerParser{bundle: b, start: end, size: uint64(size)}
	return b, fault.Try(func() { p.parse(header) })
}

// A headerParser reads the flatbuffer.
type headerParser struct {
	bundle      *Bundle
	start, size uint64 // of what sections may take of the file: its first byte, and the end
	attributes  int    // read
}

func (p *headerParser) parse(header []byte) {
	root := flatbuf.Root(header, "", ErrMalformed)
	p.bundle.Metadata = p.readAttributes(root.Table(rootSystem).Tables(systemEntries))
	objects := root.Table(rootSections).Tables(sectionObjects)
	if objects.Len() > mostSections {
		fault.Check(malformed("%d sections", objects.Len()))
	}
	for i, object := range objects.All() {
		p.bundle.Sections = append(p.bundle.Sections, p.readSection(i, object))
	}
}

func (p *headerParser) readSection(number int, object flatbuf.Table) Section {
	begin, end := object.Uint64(objectBegin), object.Uint64(objectEnd)
	if begin < p.start || begin > end || end > p.size {
		fault.Check(malformed("section %d lies at bytes %d to %d, and sections at %d to %d", number, begin, end, p.start,
			p.size))
	}
	s := Section{Offset: int64(begin), Size: int64(end - begin)}
	dataType := int(object.Byte(objectType))
	s.Type, s.Kind = "type "+strconv.Itoa(dataType), Unknown
	if dataType < len(sectionTypes) {
		s.Type, s.Kind = sectionTypes[dataType].name, sectionTypes[dataType].kind
	}
	for _, a := range p.readAttributes(object.Tables(objectItems)) {
		if a.Key == roleKey && s.Role == "" {
			s.Role = a.Value
		} else {
			s.Metadata = append(s.Metadata, a)
		}
	}
	s.Name = strings.ToLower(strings.ReplaceAll(s.Type, " ", ""))
	if role := strings.TrimPrefix(strings.ToLower(s.Role), rolePrefix); role != "" {
		s.Name = role
		if s.Kind != Model {
			s.Name += "." + string(s.Kind)
		}
	}
	return s
}

func (p *headerParser) readAttributes(pairs flatbuf.Vector) (attributes []Attribute) {
	if p.attributes += pairs.Len(); p.attributes > mostAttributes {
		fault.Check(malformed("more than %d attributes", mostAttributes))
	}
	for _, pair := range pairs.All() {
		value := pair.Table(pairValue)
		attributes = append(attributes, Attribute{pair.String(pairKey), textOf(pair.Byte(pairValueType), value)})
	}
	return attributes
}

// textOf returns a value as text. Types are numbered as the schema's union VData does.
func textOf(valueType byte, value flatbuf.Table) string {
	switch valueType {
	case 1: // UInt8
		return strconv.Itoa(int(value.Byte(valueSlot)))
	case 2: // Int8
		return strconv.Itoa(int(int8(value.Byte(valueSlot))))
	case 3: // UInt16
		return strconv.Itoa(int(uint16(value.Int16(valueSlot))))
	case 4: // Int16
		return strconv.Itoa(int(value.Int16(valueSlot)))
	case 5: // UInt32
		return strconv.FormatUint(uint64(value.Uint32(valueSlot)), 10)
	case 6: // Int32
		return strconv.Itoa(int(value.Int32(valueSlot, 0)))
	case 7: // Float32
		return strconv.FormatFloat(float64(value.Float32(valueSlot, 0)), 'g', -1, 32)
	case 8: // Bool
		return strconv.FormatBool(value.Bool(valueSlot))
	case 9: // StringValue
		return value.String(valueSlot)
	case 10: // UInt64
		return strconv.FormatUint(value.Uint64(valueSlot), 10)
	case 11: // Int64
		return strconv.FormatInt(int64(value.Uint64(valueSlot)), 10)
	case 12: // Double
		return strconv.FormatFloat(math.Float64frombits(value.Uint64(valueSlot)), 'g', -1, 64)
	}
	return "type " + strconv.Itoa(int(valueType))
}
