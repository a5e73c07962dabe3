package docs

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A measured text is a document with tables of figures.
type measured struct {
	*testing.T
	text string
}

// row returns the figures of a row in the first table after a heading; min - max are two, and what was not measured is
// left out.
func (m measured) row(heading, name string) (figures []float64) {
	m.Helper()
	_, table, ok := strings.Cut(m.text, heading)
	require.True(m, ok, heading)
	line := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(name) + `  +(.*)$`).FindStringSubmatch(table)
	require.NotEmpty(m, line, "%s: %s", heading, name)
	for _, figure := range regexp.MustCompile(`[\d.]+`).FindAllString(line[1], -1) {
		f, err := strconv.ParseFloat(figure, 64)
		require.NoError(m, err)
		figures = append(figures, f)
	}
	return figures
}

// last returns the figure so many columns from the end, of several rows.
func (m measured) last(column int, rows ...[2]string) (figures []float64) {
	m.Helper()
	for _, r := range rows {
		cells := m.row(r[0], r[1])
		figures = append(figures, cells[len(cells)-column])
	}
	return figures
}

// mib and ms format the least and the greatest figure.
func mib(figures ...float64) string { return span(figures, 1000, 1024, "MiB", "GiB") }
func ms(figures ...float64) string  { return span(figures, 2000, 1000, "ms", "s") }

// span has larger figures than most in the larger unit.
func span(figures []float64, limit, larger float64, unit, largerUnit string) string {
	low, high := slices.Min(figures), slices.Max(figures)
	if high > limit {
		low, high, unit = low/larger, high/larger, largerUnit
	}
	digits := 0
	if math.Round(10*low) < 100 {
		digits = 1
	}
	first, last := strconv.FormatFloat(low, 'f', digits, 64), strconv.FormatFloat(high, 'f', digits, 64)
	if first == last {
		return first + " " + unit
	}
	return first + " to " + last + " " + unit
}

// Figures have one place, docs/measurements.md. Other documents quote them unchanged.
func TestTheFiguresOfTheDocumentsAreThoseThatWereMeasured(t *testing.T) {
	documents := map[string]string{}
	for _, name := range []string{"README.md", "docs/executorch.md", "docs/measurements.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		documents[name] = string(text)
	}
	m := measured{t, documents["docs/measurements.md"]}
	const (
		language, pose, selfie = "\nSmolLM2-135M, ", "\npose_landmark_heavy.tflite, ", "\nselfie_segmentation.tflite, "
		flat, program          = "\nchain-14.tflite, ", "\nchain-14.pte, "
		uncached, next         = "xpwc, without cache", "xpwc, next start"
	)
	row := func(format string, cells ...any) string { return fmt.Sprintf(format, cells...) }
	said := map[string][]string{"README.md": {}, "docs/executorch.md": {}}
	readme := func(format string, cells ...any) {
		said["README.md"] = append(said["README.md"], row(format, cells...))
	}

	alone := func(name string) string { return fmt.Sprintf("%.0f ms", m.row(language, name)[0]) }
	eight := func(name string) []float64 { return m.row(language, name) }
	readme("packs | %s | %s | %s |", alone("without cache"), ms(eight("eight at once, without cache")[0]),
		mib(eight("eight at once, without cache")[2]))
	readme("into a file | %s | | |", alone("first start"))
	readme("maps the file | %s | %.2f s | %s |", alone("next start"), eight("eight at once, next start")[0]/1000,
		mib(eight("eight at once, next start")[2]))
	readme("on the disk | %s | | |", alone("next start, from the disk"))

	together := func(rows ...[2]string) string { return mib(m.last(2, rows...)...) + " | " + ms(m.last(1, rows...)...) }
	readme("ExecuTorch 1.5.1 | %s | %s |",
		together([2]string{flat, uncached}, [2]string{flat, "LiteRT, without cache"}, [2]string{program, uncached},
			[2]string{program, "ExecuTorch, without cache"}),
		together([2]string{pose, uncached}, [2]string{pose, "LiteRT, without cache"}))
	readme("xpwc, with cache | %s | %s |",
		together([2]string{flat, next}, [2]string{program, next}), together([2]string{pose, next}))
	readme("LiteRT, with cache | %s | %s |",
		together([2]string{flat, "LiteRT, next start"}), together([2]string{pose, "LiteRT, next start"}))
	stock, packed := [2]string{program, "ExecuTorch, next start"}, [2]string{program, "ExecuTorch, packed by xpwc"}
	readme("one process at a time can use | %s | | |", together(stock))
	readme("that xpwc packed for it | %s | | |", together(packed))
	const answer = 4 // after load, min and max, and first
	for _, way := range []string{uncached, next} {
		readme("selfie_segmentation answers after %.0f ms either way", m.row(selfie, way)[answer])
	}
	readme("its first start takes %.1f ms longer",
		m.row(selfie, "xpwc, first start")[answer]-m.row(selfie, uncached)[answer])

	said["docs/executorch.md"] = []string{
		row("need %s and load in %s together with ExecuTorch's cache, and %s and %s with the file",
			mib(m.last(2, stock)...), ms(m.last(1, stock)...), mib(m.last(2, packed)...), ms(m.last(1, packed)...)),
	}
	for name, quoted := range said {
		flowing := strings.Join(strings.Fields(strings.ReplaceAll(documents[name], "**", "")), " ")
		for _, s := range quoted {
			require.True(t, strings.Contains(flowing, s), "docs/measurements.md has it so, and %s not: %s", name, s)
		}
	}
}
