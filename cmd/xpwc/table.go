package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// table is printed with its first column to the left and the others to the right.
type table struct{ rows [][]string }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) error {
	first := 0
	for _, r := range t.rows {
		first = max(first, utf8.RuneCountInString(r[0]))
	}
	var aligned bytes.Buffer
	tw := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', tabwriter.AlignRight)
	for _, r := range t.rows {
		pad := strings.Repeat(" ", first-utf8.RuneCountInString(r[0]))
		fmt.Fprintf(tw, "%s%s\t%s\t\n", r[0], pad, strings.Join(r[1:], "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var lines bytes.Buffer // without blanks at their ends
	for line := range bytes.Lines(aligned.Bytes()) {
		lines.Write(bytes.TrimRight(line, " \n"))
		lines.WriteByte('\n')
	}
	_, err := w.Write(lines.Bytes())
	return err
}

// none stands where a figure does not apply.
const none = "-"

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ms writes milliseconds.
func ms(v float64) string { return digits(v) + " ms" }

// digits writes a number with three digits that count, and at most two after the point.
func digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// size writes a number of bytes in a unit that suits it.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return mebibytes(n)
}
