// Package console prints what people read on a terminal: tables, and figures with their units.
package console

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Milliseconds returns a duration as a number of milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// MS writes milliseconds.
func MS(v float64) string { return Digits(v) + " ms" }

// Digits writes a number with three significant digits, and at most two after the point.
func Digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Mebibytes writes a number of bytes in MiB.
func Mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Size writes a number of bytes in a unit that suits it.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return Mebibytes(n)
}

// Percent writes what part of the whole something is.
func Percent(part, whole int64) string {
	if whole == 0 {
		return Blank
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// Plural writes a number of things, whose name is given in the singular.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, y := strings.CutSuffix(noun, "y"); y {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(noun, "s") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
