package format

import (
	"strings"
	"unicode"
)

// MostSourceName is how many bytes a source's name has at most.
const MostSourceName = 100

// mostSourceNames is how many bytes the names of all sources take at most, with their lengths. The sources after those
// whose names fit have none.
const mostSourceNames = 8 << 10

// CleanName returns a source's name as files have it: printable, and of at most MostSourceName bytes.
func CleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name[:min(len(name), 4*MostSourceName)])
	return strings.ToValidUTF8(name[:min(len(name), MostSourceName)], "")
}

// A namedSource is a source in the table of an index.
type namedSource struct {
	digest Digest
	name   string
}

// A sourceTable collects sources. A source with a digest is identified by it, and gets the first name in a record; a
// source without one is identified by its name.
type sourceTable struct {
	rows    []namedSource
	numbers map[namedSource]uint32
}

func (t *sourceTable) add(digest Digest, name string) (number uint32) {
	key := namedSource{digest: digest}
	if digest == (Digest{}) {
		key.name = name
	}
	number, ok := t.numbers[key]
	if !ok {
		number = uint32(len(t.rows))
		t.numbers[key] = number
		t.rows = append(t.rows, namedSource{digest: digest})
	}
	if row := &t.rows[number]; row.name == "" {
		row.name = CleanName(name)
	}
	return number
}

// names returns the names of the sources up to the last that has one, the length of each before it in a byte.
func (t *sourceTable) names() string {
	var b []byte
	end := 0
	for _, s := range t.rows {
		if b = append(append(b, byte(len(s.name))), s.name...); len(b) > mostSourceNames {
			break
		}
		if s.name != "" {
			end = len(b)
		}
	}
	return string(b[:end])
}

// splitNames splits the result of names; it returns nil for malformed text.
func splitNames(text string) (names []string) {
	for text != "" {
		end := 1 + int(text[0])
		if end > len(text) {
			return nil
		}
		names = append(names, CleanName(text[1:end]))
		text = text[end:]
	}
	return names
}

// readSourceNames reads the names of sources if the header locates them. An invalid location counts as no names.
func (x *Index) readSourceNames(header []byte) error {
	offset, size := uint64(le.Uint32(header[atSourceNames:])), uint64(le.Uint32(header[atSourceNames+4:]))
	if size > mostSourceNames || !span(offset, size, x.stringsSize()) {
		return nil
	}
	text, err := x.text(header, atSourceNames)
	x.names = splitNames(text)
	return err
}

// sourceName returns the name of a source, "" if it has none.
func (x *Index) sourceName(i uint32) string {
	if int(i) < len(x.names) {
		return x.names[i]
	}
	return ""
}
