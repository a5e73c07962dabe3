package htmlreport

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"

	"xpwc/internal/console"
)

// The treemap is laid out for these pixels: its boxes have places in percent of the box that they are in, less what
// page.css gives a label and an edge there. On a narrow screen page.css exchanges width and height.
const (
	mapWidth, mapHeight = 1130, 620
	labelHeight, edge   = 21, 3
	colours             = 8 // that page.css has for entries
)

// addMap adds the treemap, whose boxes are also the rows of the tree.
func (p *page) addMap() {
	if p.root.bytes == 0 {
		return
	}
	p.root.cut(mostBoxes)
	p.Map = p.box(p.root, "", "", rectangle{0, 0, mapWidth, mapHeight})
	p.Map.Name, p.Map.Place = "all", "--x:0%;--y:0%;--w:100%;--h:100%"
}

// box returns the box of a layer, whose path begins with that of the layer it is in. Entries of one layer have one
// colour.
func (p *page) box(l *layer, in, colour string, at rectangle) *box {
	path, class := in+l.name, "g"
	switch {
	case l.leaf:
		class = colour
	case l.rest:
		path, class = in+": "+l.name, "rest"
	case len(l.children) == 0:
		class = "closed" // there is no room on the page for what is in it
	}
	b := &box{ID: p.Layers, Name: nameIn(l.name), Class: class, Size: console.Size(l.bytes),
		Share: console.Percent(l.bytes, p.root.bytes), Entries: console.Plural(l.entries, "entry"),
		Width: percent("width", l.bytes, p.root.bytes), Group: len(l.children) > 0}
	b.Title = fmt.Sprintf("%s — %s, %s, %s", text(cmp.Or(path, "all"), mostName), b.Size, b.Share, b.Entries)
	colour = fmt.Sprintf("c%d", p.Layers%colours)
	p.Layers++
	inner := rectangle{0, 0, max(0, at.width-2*edge), max(0, at.height-labelHeight-edge)}
	var sizes []float64
	for _, c := range l.children {
		sizes = append(sizes, float64(c.bytes))
	}
	for i, at := range divide(inner, sizes) {
		c := p.box(l.children[i], path, colour, at)
		c.Place = place(at, inner)
		b.Children = append(b.Children, c)
	}
	return b
}

// nameIn returns the name of a layer without the dot or the slash before it.
func nameIn(name string) string {
	return text(cmp.Or(strings.TrimLeft(strings.TrimSuffix(name, ": "), "./ "), name), mostLabel)
}

// place is where a box is in the one that it is in.
func place(at, in rectangle) template.CSS {
	percent := func(part, whole float64) float64 {
		if whole <= 0 {
			return 0
		}
		return 100 * part / whole
	}
	return template.CSS(fmt.Sprintf("--x:%.2f%%;--y:%.2f%%;--w:%.2f%%;--h:%.2f%%", percent(at.x, in.width),
		percent(at.y, in.height), percent(at.width, in.width), percent(at.height, in.height)))
}

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
