// Package console prints what people read on a terminal: tables, and figures with their units.
package console

import (
	"strings"
	"unicode"
)

// Printable replaces what could control a terminal in a name that was read from a file.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
