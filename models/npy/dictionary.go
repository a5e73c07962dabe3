package npy

import (
	"regexp"
	"strconv"
	"strings"

	"xpwc/models/safetensors"
)

// dtypes are the types that can be read, as NumPy writes them: '<' for little-endian or '|' for single bytes, then b
// for booleans, i and u for integers with and without sign, f for floating-point numbers and c for pairs of them, then
// the size in bytes.
var dtypes = map[string]safetensors.Dtype{
	"|b1": safetensors.Bool, "|i1": safetensors.I8, "<i2": safetensors.I16, "<i4": safetensors.I32,
	"<i8": safetensors.I64, "|u1": safetensors.U8, "<u2": safetensors.BF16, "<u4": safetensors.U32,
	"<u8": safetensors.U64, "<f2": safetensors.F16, "<f4": safetensors.F32, "<f8": safetensors.F64,
	"<c8": safetensors.C64,
}

// member is a name and a value of a Python dictionary: a string without escapes, a boolean, a tuple of numbers, or the
// beginning of another list or tuple.
var member = regexp.MustCompile(
	`^\s*(?:'(\w*)'|"(\w*)")\s*:\s*('[^'\\\n]*'|"[^"\\\n]*"|True|False|\([\s\d,]*\)|[\[(])\s*`)

// members are the names in the dictionary of a header, and their values.
var members = map[string]*regexp.Regexp{
	"descr":         regexp.MustCompile(`^['"\[(]`),
	"fortran_order": regexp.MustCompile(`^(True|False)$`),
	"shape": regexp.MustCompile(
		strings.ReplaceAll(`^\(\s*(SIZE\s*,\s*(SIZE\s*,\s*)*(SIZE\s*)?)?\)$`, "SIZE", `(0|[1-9]\d*)`)),
}

var digits = regexp.MustCompile(`\d+`)

// parseDictionary reads the literal that a header is, into an array without its bytes.
func parseDictionary(text string) (a safetensors.Tensor, err error) {
	const spaces = " \t\r\n\f"
	rest, ok := strings.CutPrefix(strings.Trim(text, spaces), "{")
	values := map[string]string{}
	for ok && rest != "}" {
		m := member.FindStringSubmatch(rest)
		if m == nil {
			return a, malformed("header: no member of a dictionary begins at %.20q", rest)
		}
		name, value := m[1]+m[2], m[3]
		if pattern := members[name]; values[name] != "" || pattern == nil || !pattern.MatchString(value) {
			return a, malformed("header: it cannot have %q: %s", name, value)
		}
		values[name] = value
		if name == "descr" && strings.ContainsAny(value[:1], "[(") {
			return a, unsupported("structured elements; save each field as an array of its own")
		}
		rest, ok = strings.CutPrefix(rest[len(m[0]):], ",")
		rest = strings.TrimLeft(rest, spaces)
	}
	if rest != "}" || len(values) != len(members) {
		return a, malformed("header: not a dictionary of descr, fortran_order and shape")
	}
	descr := strings.Trim(values["descr"], `'"`)
	a.Dtype, a.Shape = dtypes[descr], []int{}
	for _, size := range digits.FindAllString(values["shape"], -1) {
		n, err := strconv.Atoi(size)
		if err != nil {
			return a, malformed("header: a size of %s", size)
		}
		a.Shape = append(a.Shape, n)
	}
	switch {
	case a.Dtype == "":
		return a, unsupported(
			"elements of type %q; save it as little-endian numbers, for instance a.astype('<f4')", descr)
	case values["fortran_order"] == "True" && len(a.Shape) > 1:
		return a, unsupported("Fortran order; save it row by row, as numpy.ascontiguousarray(a)")
	}
	return a, nil
}
