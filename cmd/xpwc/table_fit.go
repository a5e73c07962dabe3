package main

import (
	"slices"
	"unicode/utf8"
)

// shorten leaves out the middle of a text that is longer than width.
func shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	front := (width - 1) / 2
	return string(r[:front]) + "…" + string(r[len(r)-(width-1-front):])
}

// room is how wide the first column, of names, may be so that the table is no wider than width, within reason.
func (t *table) room(width int) int {
	const gap, least = 3, 20
	rest := gap + 1 // the table begins with a gap, and the last column of a terminal stays free
	for i := 1; i < len(t.rows[0]); i++ {
		rest += t.widest(i) + gap
	}
	return max(least, width-rest)
}

func (t *table) widest(column int) (n int) {
	for _, row := range t.rows {
		n = max(n, utf8.RuneCountInString(row[column]))
	}
	return n
}

// fit shortens names so that the table is no wider than width; 0 leaves them whole.
func (t *table) fit(width int) {
	if width == 0 {
		return
	}
	room := t.room(width)
	for _, row := range t.rows {
		row[0] = shorten(row[0], room)
	}
}

// leaveOutAlike leaves out columns in which all rows say the same while names would have to be shortened, from the last on. It returns what
// these columns say, for a line beneath the table; 0 is a width that everything fits.
func (t *table) leaveOutAlike(width int) (said []string) {
	for i := len(t.rows[0]) - 1; i > 0 && width > 0 && len(t.rows) > 2 && t.widest(0) > t.room(width); i-- {
		first := t.rows[1][i]
		if slices.ContainsFunc(t.rows[1:], func(row []string) bool { return row[i] != first }) {
			continue
		}
		said = append(said, t.rows[0][i]+" "+first)
		for n, row := range t.rows {
			t.rows[n] = slices.Delete(row, i, i+1)
		}
	}
	slices.Reverse(said)
	return said
}
