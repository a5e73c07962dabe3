package htmlreport

// A rectangle is a part of a box, in the units of the treemap.
type rectangle struct{ x, y, width, height float64 }

// divide divides a rectangle among sizes, which are sorted downwards: along its longer side in two parts of about the
// same sum, and each of these again.
func divide(in rectangle, sizes []float64) []rectangle {
	switch {
	case len(sizes) == 0:
		return nil
	case sizes[0] <= 0: // and so are the others
		return make([]rectangle, len(sizes))
	case len(sizes) == 1:
		return []rectangle{in}
	}
	total := 0.0
	for _, s := range sizes {
		total += s
	}
	n, sum := 1, sizes[0]
	for n < len(sizes)-1 && sum+sizes[n]/2 < total/2 {
		n, sum = n+1, sum+sizes[n]
	}
	part := sum / total
	first, second := in, in
	if in.width > in.height {
		first.width *= part
		second.x, second.width = in.x+first.width, max(0, in.width-first.width)
	} else {
		first.height *= part
		second.y, second.height = in.y+first.height, max(0, in.height-first.height)
	}
	return append(divide(first, sizes[:n]), divide(second, sizes[n:])...)
}
