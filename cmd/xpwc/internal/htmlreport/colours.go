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
	What  string
	Class int
	Bytes int64
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
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.What, b.What))
	})
	for i := range ranked {
		ranked[i].Class = min(i, classOther)
	}
	if len(ranked) > distinct {
		for _, c := range ranked[distinct:] {
			other.Bytes += c.Bytes
		}
		ranked = append(ranked[:distinct:distinct], other)
	}
	if none {
		unknown.Bytes = bytes[noColour]
		ranked = append(ranked, unknown)
	}
	return ranked
}

// ClassOf returns the class of a box.
func (s *survey) ClassOf(f packing.Family) int {
	what := colourOf(f)
	if what == noColour {
		return classUnknown
	}
	for _, c := range s.Colours {
		if c.What == what {
			return c.Class
		}
	}
	return classOther
}
