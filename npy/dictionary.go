package npy

import (
	"strconv"
	"strings"
)

// dictionary is the header as Python reads it.
type dictionary struct {
	descr   string
	fortran bool
	shape   []int
}

// parseDictionary reads the literal that a header is. Where longs is true, integers may end in L, as Python 2 wrote
// them.
func parseDictionary(text string, longs bool) (*dictionary, error) {
	p := &parser{rest: text, longs: longs}
	d := &dictionary{}
	p.expect("{")
	seen := map[string]bool{}
	for p.err == nil && !p.take("}") {
		key := p.text()
		p.expect(":")
		if seen[key] {
			p.fail("%q comes twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			d.descr = p.descr()
		case "fortran_order":
			d.fortran = p.boolean()
		case "shape":
			d.shape = p.tuple()
		default:
			p.fail("another key %q", key)
		}
		if !p.take(",") {
			p.expect("}")
			break
		}
	}
	p.space()
	if p.err == nil && p.rest != "" {
		p.fail("something follows the dictionary")
	}
	if p.err == nil && len(seen) != 3 {
		p.fail("descr, fortran_order and shape are needed")
	}
	return d, p.err
}

// parser keeps the first fault, after which nothing is read any more.
type parser struct {
	rest  string
	longs bool
	err   error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = malformed("header: "+format, args...)
	}
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n\f") }

// take reports whether what comes next is the token, and reads it if so.
func (p *parser) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if p.err != nil || !ok {
		return false
	}
	p.rest = rest
	return true
}

func (p *parser) expect(token string) {
	if !p.take(token) {
		p.fail("no %q where one is needed", token)
	}
}

// text reads a string in either kind of quotes. No name or type in a header needs an escape.
func (p *parser) text() string {
	for _, quote := range []string{"'", `"`} {
		if !p.take(quote) {
			continue
		}
		s, rest, ok := strings.Cut(p.rest, quote)
		if !ok || strings.ContainsAny(s, "\\\n") {
			break
		}
		p.rest = rest
		return s
	}
	p.fail("no string where one is needed")
	return ""
}

// descr reads a type. That of structured arrays is a list or a tuple.
func (p *parser) descr() string {
	if p.err == nil && (p.take("[") || p.take("(")) {
		p.err = unsupported("structured elements; save each field as an array of its own")
	}
	return p.text()
}

func (p *parser) boolean() bool {
	switch {
	case p.take("True"):
		return true
	case !p.take("False"):
		p.fail("neither True nor False for fortran_order")
	}
	return false
}

// tuple reads a tuple of sizes.
func (p *parser) tuple() []int {
	shape := []int{}
	p.expect("(")
	for p.err == nil && !p.take(")") {
		shape = append(shape, p.size())
		if p.take(",") {
			continue
		}
		p.expect(")")
		if len(shape) == 1 {
			p.fail("a number for shape, not a tuple")
		}
		break
	}
	return shape
}

func (p *parser) size() int {
	p.space()
	digits := len(p.rest) - len(strings.TrimLeft(p.rest, "0123456789"))
	n, err := strconv.Atoi(p.rest[:digits])
	if err != nil || digits > 1 && p.rest[0] == '0' {
		p.fail("no size where one is needed")
		return 0
	}
	p.rest = p.rest[digits:]
	if p.longs {
		p.rest = strings.TrimPrefix(p.rest, "L")
	}
	return n
}
