package htmlreport

// A rectangle is a part of a box, in the units of the treemap.
type rectangle struct{ x, y, width, height float64 }

func (r rectangle) short() float64 { return min(r.width, r.height) }

// squarify divides a rectangle among sizes, which are sorted downwards, in rectangles as square as it can make them
// (Bruls, Huizing and van Wijk: Squarified Treemaps, 2000).
func squarify(in rectangle, sizes []float64) []rectangle {
	total := 0.0
	for _, s := range sizes {
		total += s
	}
	parts := make([]rectangle, 0, len(sizes))
	if total <= 0 || in.width <= 0 || in.height <= 0 {
		return parts[:cap(parts)]
	}
	scale := in.width * in.height / total
	for len(sizes) > 0 {
		n, sum := 1, sizes[0]*scale
		for n < len(sizes) {
			next := sum + sizes[n]*scale
			if worst(sizes[0]*scale, sizes[n]*scale, next, in.short()) >
				worst(sizes[0]*scale, sizes[n-1]*scale, sum, in.short()) {
				break
			}
			n, sum = n+1, next
		}
		parts, in = row(parts, in, sizes[:n], scale, sum)
		sizes = sizes[n:]
	}
	return parts
}

// worst is the worst ratio of sides in a row of an area along a side, of which the largest and the smallest are given.
func worst(largest, smallest, area, side float64) float64 {
	if smallest <= 0 || area <= 0 || side <= 0 {
		return 1e300
	}
	return max(side*side*largest/(area*area), area*area/(side*side*smallest))
}

// row lays out sizes along the shorter side, and returns what is left of the rectangle.
func row(parts []rectangle, in rectangle, sizes []float64, scale, area float64) ([]rectangle, rectangle) {
	side := in.short()
	if side <= 0 {
		return append(parts, make([]rectangle, len(sizes))...), in
	}
	depth := area / side
	at := 0.0
	for _, s := range sizes {
		length := 0.0
		if depth > 0 {
			length = s * scale / depth
		}
		if in.width < in.height {
			parts = append(parts, rectangle{in.x + at, in.y, length, depth})
		} else {
			parts = append(parts, rectangle{in.x, in.y + at, depth, length})
		}
		at += length
	}
	if in.width < in.height {
		in.y, in.height = in.y+depth, max(0, in.height-depth)
	} else {
		in.x, in.width = in.x+depth, max(0, in.width-depth)
	}
	return parts, in
}
