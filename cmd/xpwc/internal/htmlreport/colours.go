package htmlreport

import (
	"cmp"
	"slices"

	"xpwc/packing"
)

// Boxes of the treemap are coloured by their kernels: the first classes of page.css are those that have the most bytes,
// and the last two those of the other kernels and of entries whose kernel is not recorded.
const (
	distinct     = 6
	otherColour  = "other kernels"
	noColour     = ""
	classOther   = distinct
	classUnknown = distinct + 1
)

// A colour is what boxes are coloured for.
type colour struct {
	what  string
	class int
	bytes int64
}

// colourOf returns the operator and the kernel's datatype.
func colourOf(f packing.Family) string {
	if f == (packing.Family{}) {
		return noColour
	}
	return f.Operator.String() + " " + f.Kernel.String()
}

// rank returns the colours that there are.
func rank(bytes map[string]int64) (ranked []colour) {
	other := colour{otherColour, classOther, 0}
	unknown := colour{"kernel not recorded", classUnknown, 0}
	_, none := bytes[noColour]
	for what, n := range bytes {
		if what != noColour {
			ranked = append(ranked, colour{what, 0, n})
		}
	}
	slices.SortFunc(ranked, func(a, b colour) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.what, b.what))
	})
	for i := range ranked {
		ranked[i].class = min(i, classOther)
	}
	if len(ranked) > distinct {
		for _, c := range ranked[distinct:] {
			other.bytes += c.bytes
		}
		ranked = append(ranked[:distinct:distinct], other)
	}
	if none {
		unknown.bytes = bytes[noColour]
		ranked = append(ranked, unknown)
	}
	return ranked
}

// class returns the class of a box.
func (s *survey) class(f packing.Family) int {
	what := colourOf(f)
	if what == noColour {
		return classUnknown
	}
	for _, c := range s.colours {
		if c.what == what {
			return c.class
		}
	}
	return classOther
}
