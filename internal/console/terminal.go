// Package console prints what people read on a terminal: tables, figures with their units, and the progress of long
// work.
package console

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Width returns how many columns the terminal w has, or 0 if w is not a terminal.
func Width(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 40 {
		return 80
	}
	return width
}

// Printable replaces what could control a terminal in a name that was read from a file.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
