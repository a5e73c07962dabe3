package console

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// None stands where a figure does not apply.
const None = "-"

// A Table is printed with its first column aligned to the left and the others to the right. All rows have as many cells
// as the first.
type Table struct{ Rows [][]string }

// Row adds a row.
func (t *Table) Row(cells ...string) { t.Rows = append(t.Rows, cells) }

// Transposed is a table with rows in place of columns.
func (t *Table) Transposed() *Table {
	out := &Table{}
	for i := range t.Rows[0] {
		var cells []string
		for _, row := range t.Rows {
			cells = append(cells, row[i])
		}
		out.Row(cells...)
	}
	return out
}

// Print writes the table, without blanks at the ends of lines.
func (t *Table) Print(w io.Writer) error {
	first := 0
	for _, r := range t.Rows {
		first = max(first, utf8.RuneCountInString(r[0]))
	}
	var aligned bytes.Buffer
	tw := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', tabwriter.AlignRight)
	for _, r := range t.Rows {
		pad := strings.Repeat(" ", first-utf8.RuneCountInString(r[0]))
		fmt.Fprintf(tw, "%s%s\t%s\t\n", r[0], pad, strings.Join(r[1:], "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var lines bytes.Buffer
	for line := range bytes.Lines(aligned.Bytes()) {
		lines.Write(bytes.TrimRight(line, " \n"))
		lines.WriteByte('\n')
	}
	_, err := w.Write(lines.Bytes())
	return err
}

// Shorten leaves out the middle of a text that is longer than width.
func Shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	front := (width - 1) / 2
	return string(r[:front]) + "…" + string(r[len(r)-(width-1-front):])
}

// beginning leaves out the end of a text that is longer than width.
func beginning(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// shortenAll shortens names longer than width. Names that would look equal lose their beginning instead.
func shortenAll(names []string, width int) []string {
	short := make([]string, len(names))
	groups := map[string][]int{}
	for i, name := range names {
		short[i] = Shorten(name, width)
		groups[short[i]] = append(groups[short[i]], i)
	}
	for _, alike := range groups {
		first := names[alike[0]]
		n := len(first) // how much of it they have in common
		for _, i := range alike {
			for !strings.HasPrefix(names[i], first[:n]) {
				_, last := utf8.DecodeLastRuneInString(first[:n])
				n -= last
			}
		}
		if n == len(first) {
			continue
		}
		start := max(strings.LastIndexAny(first[:n], "/.;")+1, n-width*4/5)
		for !utf8.RuneStart(first[start]) {
			start++
		}
		for _, i := range alike {
			short[i] = beginning("…"+names[i][start:], width)
		}
	}
	return short
}

// Room is how many columns the names in the first cells may have so that the table is no wider than width; it is never
// less than 20.
func (t *Table) Room(width int) int {
	const gap, minWidth = 3, 20
	rest := gap + 1 // the table begins with a gap, and the last column of a terminal stays free
	for i := 1; i < len(t.Rows[0]); i++ {
		rest += t.Widest(i) + gap
	}
	return max(minWidth, width-rest)
}

// Widest is how many columns the widest cell of a column takes.
func (t *Table) Widest(column int) (n int) {
	for _, row := range t.Rows {
		n = max(n, utf8.RuneCountInString(row[column]))
	}
	return n
}

// Fit shortens the names in the first cells so that the table is no wider than width and they stay different; 0 leaves
// them whole.
func (t *Table) Fit(width int) {
	if width == 0 {
		return
	}
	var names []string
	for _, row := range t.Rows {
		names = append(names, row[0])
	}
	for i, name := range shortenAll(names, t.Room(width)) {
		t.Rows[i][0] = name
	}
}

// LeaveOut leaves out columns that are named, in this order, while names would have to be shortened to fit width; with
// 0 none.
func (t *Table) LeaveOut(width int, columns ...string) {
	for _, name := range columns {
		if i := slices.Index(t.Rows[0], name); i > 0 && width > 0 && t.Widest(0) > t.Room(width) {
			t.drop(i)
		}
	}
}

// LeaveOutEmpty removes columns that are empty below the first row.
func (t *Table) LeaveOutEmpty() {
	for i := len(t.Rows[0]) - 1; i > 0; i-- {
		if !slices.ContainsFunc(t.Rows[1:], func(row []string) bool { return row[i] != None }) {
			t.drop(i)
		}
	}
}

func (t *Table) drop(column int) {
	for n, row := range t.Rows {
		t.Rows[n] = slices.Delete(row, column, column+1)
	}
}
