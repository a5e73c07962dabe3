package console

import (
	"bytes"
	"fmt"
	"io"
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
