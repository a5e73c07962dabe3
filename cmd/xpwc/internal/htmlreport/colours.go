package htmlreport

import (
	"cmp"
	"slices"

	"xpwc/packing"
)

// classes is how many colours page.css has for boxes: the kernels that have the most bytes have one each but for the
// last, which is that of all others.
const classes = 8

// A colour is what boxes are coloured for.
type colour struct {
	What  string
	Bytes int64
}

// colourOf returns the operator and the kernel's datatype.
func colourOf(f packing.Family) string {
	if f == (packing.Family{}) {
		return "kernel not recorded"
	}
	return f.Operator.String() + " " + f.Kernel.String()
}

// rank returns the colours that there are, in the order of their classes.
func rank(bytes map[string]int64) (ranked []colour) {
	for what, n := range bytes {
		ranked = append(ranked, colour{what, n})
	}
	slices.SortFunc(ranked, func(a, b colour) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.What, b.What))
	})
	if len(ranked) <= classes {
		return ranked
	}
	other := colour{What: "other kernels"}
	for _, c := range ranked[classes-1:] {
		other.Bytes += c.Bytes
	}
	return append(ranked[:classes-1], other)
}

// classOf returns the class of a box.
func (s *survey) classOf(f packing.Family) int {
	what := colourOf(f)
	at := slices.IndexFunc(s.Colours, func(c colour) bool { return c.What == what })
	if at < 0 {
		return classes - 1
	}
	return at
}
