package console

import (
	"slices"
	"unicode/utf8"
)

// Shorten leaves out the middle of a text that is longer than width.
func Shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	front := (width - 1) / 2
	return string(r[:front]) + "…" + string(r[len(r)-(width-1-front):])
}

// Room is how many columns the names in the first cells may have so that the table is no wider than width; it is never
// less than 20.
func (t *Table) Room(width int) int {
	const gap, least = 3, 20
	rest := gap + 1 // the table begins with a gap, and the last column of a terminal stays free
	for i := 1; i < len(t.Rows[0]); i++ {
		rest += t.Widest(i) + gap
	}
	return max(least, width-rest)
}

// Widest is how many columns the widest cell of a column takes.
func (t *Table) Widest(column int) (n int) {
	for _, row := range t.Rows {
		n = max(n, utf8.RuneCountInString(row[column]))
	}
	return n
}

// Fit shortens the names in the first cells so that the table is no wider than width; 0 leaves them whole.
func (t *Table) Fit(width int) {
	if width == 0 {
		return
	}
	room := t.Room(width)
	for _, row := range t.Rows {
		row[0] = Shorten(row[0], room)
	}
}

// LeaveOut leaves out columns that are named, in this order, while names would have to be shortened.
func (t *Table) LeaveOut(width int, columns ...string) {
	for _, name := range columns {
		if i := slices.Index(t.Rows[0], name); i > 0 && t.Widest(0) > t.Room(width) {
			t.leaveOut(i)
		}
	}
}

func (t *Table) leaveOut(column int) {
	for n, row := range t.Rows {
		t.Rows[n] = slices.Delete(row, column, column+1)
	}
}

// LeaveOutAlike leaves out columns in which all rows say the same while names would have to be shortened, from the last
// on. It returns what these columns say, for a line beneath the table; 0 is a width that everything fits.
func (t *Table) LeaveOutAlike(width int) (said []string) {
	for i := len(t.Rows[0]) - 1; i > 0 && width > 0 && len(t.Rows) > 2 && t.Widest(0) > t.Room(width); i-- {
		first := t.Rows[1][i]
		if slices.ContainsFunc(t.Rows[1:], func(row []string) bool { return row[i] != first }) {
			continue
		}
		said = append(said, t.Rows[0][i]+" "+first)
		t.leaveOut(i)
	}
	slices.Reverse(said)
	return said
}
