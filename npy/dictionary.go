package npy

import (
	"regexp"
	"strconv"
	"strings"
)

// dictionary is the header as Python reads it.
type dictionary struct {
	descr   string
	fortran bool
	shape   []int
}

// member is a name and a value of a Python dictionary: a string without escapes, a boolean, a tuple of numbers, or the
// beginning of another list or tuple.
var member = regexp.MustCompile(
	`^\s*(?:'(\w*)'|"(\w*)")\s*:\s*('[^'\\\n]*'|"[^"\\\n]*"|True|False|\([\s\d,L]*\)|[\[(])\s*`)

// members are the names in the dictionary of a header, and their values. Integers may end in L, as Python 2 wrote them.
var members = map[string]*regexp.Regexp{
	"descr":         regexp.MustCompile(`^['"\[(]`),
	"fortran_order": regexp.MustCompile(`^(True|False)$`),
	"shape": regexp.MustCompile(
		strings.ReplaceAll(`^\(\s*(SIZE\s*,\s*(SIZE\s*,\s*)*(SIZE\s*)?)?\)$`, "SIZE", `(0|[1-9]\d*)L?`)),
}

var digits = regexp.MustCompile(`\d+`)

// parseDictionary reads the literal that a header is. Where longs is true, integers may end in L.
func parseDictionary(text string, longs bool) (*dictionary, error) {
	const spaces = " \t\r\n\f"
	rest, more := strings.CutPrefix(strings.Trim(text, spaces), "{")
	values := map[string]string{}
	for more && rest != "}" {
		m := member.FindStringSubmatch(rest)
		if m == nil {
			return nil, malformed("header: no member of a dictionary begins at %.20q", rest)
		}
		name, value := m[1]+m[2], m[3]
		if known := members[name]; values[name] != "" || known == nil || !known.MatchString(value) {
			return nil, malformed("header: it cannot have %q: %s", name, value)
		}
		values[name] = value
		if name == "descr" && strings.ContainsAny(value[:1], "[(") {
			return nil, unsupported("structured elements; save each field as an array of its own")
		}
		rest, more = strings.CutPrefix(rest[len(m[0]):], ",")
		rest = strings.TrimLeft(rest, spaces)
	}
	if rest != "}" || len(values) != len(members) {
		return nil, malformed("header: not a dictionary of descr, fortran_order and shape")
	}
	if !longs && strings.Contains(values["shape"], "L") {
		return nil, malformed("header: integers of Python 2 in a later version")
	}
	descr := values["descr"]
	d := &dictionary{descr: descr[1 : len(descr)-1], fortran: values["fortran_order"] == "True", shape: []int{}}
	for _, size := range digits.FindAllString(values["shape"], -1) {
		n, err := strconv.Atoi(size)
		if err != nil {
			return nil, malformed("header: a size of %s", size)
		}
		d.shape = append(d.shape, n)
	}
	return d, nil
}
