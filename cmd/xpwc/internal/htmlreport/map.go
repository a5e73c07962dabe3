package htmlreport

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"xpwc/internal/console"
)

// The treemap is laid out for these pixels: its boxes have places in percent of the box that they are in, less what
// page.css gives a label and an edge there. On a narrow screen page.css exchanges width and height.
const (
	mapWidth, mapHeight = 1130, 620
	labelHeight, edge   = 21, 3
)

// addMap adds the treemap, whose boxes are also the rows of the tree.
func (p *page) addMap(s *survey) {
	if s.root.bytes == 0 {
		return
	}
	m := mapper{survey: s, page: p}
	p.Map = m.box(choose(s.root, mostBoxes), "", rectangle{0, 0, mapWidth, mapHeight})
	p.Map.Name, p.Map.Place = "all", "--x:0%;--y:0%;--w:100%;--h:100%"
}

type mapper struct {
	*survey
	page *page
}

// box returns the box of a layer, whose path begins with that of the layer it is in.
func (m *mapper) box(s *shown, in string, at rectangle) *box {
	path, kernel, class := in+s.name, "", "g"
	switch {
	case s.leaf:
		kernel, class = colourOf(s.family), fmt.Sprintf("c%d", m.ClassOf(s.family))
	case len(s.children) == 0:
		class = "closed" // there is no room on the page for what is in it
	}
	b := m.newBox(m.nameIn(s.name), class, s.bytes, s.entries)
	b.Group, b.Title = len(s.children) > 0, title(text(path, mostName), b, kernel)
	inner := rectangle{0, 0, max(0, at.width-2*edge), max(0, at.height-labelHeight-edge)}
	if s.alone {
		path += ": "
	}
	m.children(b, s, path, inner)
	return b
}

// children adds the boxes of the layers in a box.
func (m *mapper) children(b *box, s *shown, path string, in rectangle) {
	type item struct {
		*shown
		bytes int64
	}
	var items []item
	for _, c := range s.children {
		items = append(items, item{c, c.bytes})
	}
	if s.rest > 0 {
		items = append(items, item{nil, s.restSize})
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.bytes, a.bytes) })
	var sizes []float64
	for _, i := range items {
		sizes = append(sizes, float64(i.bytes))
	}
	for n, at := range squarify(in, sizes) {
		var c *box
		if items[n].shown == nil {
			c = m.restBox(s, path)
		} else {
			c = m.box(items[n].shown, path, at)
		}
		c.Place = place(at, in)
		b.Children = append(b.Children, c)
	}
}

// newBox returns a box that has no title yet.
func (m *mapper) newBox(name, class string, bytes int64, entries int) *box {
	b := &box{ID: m.page.Layers, Name: name, Class: class, Size: console.Size(bytes),
		Share: console.Percent(bytes, m.root.bytes), Entries: number(entries) + " entries",
		Width: percent("width", bytes, m.root.bytes)}
	if entries == 1 {
		b.Entries = "1 entry"
	}
	m.page.Layers++
	return b
}

func (m *mapper) restBox(s *shown, path string) *box {
	b := m.newBox(number(s.rest)+" smaller", "rest", s.restSize, s.restOf)
	b.Title = title(text(path, mostName)+": "+b.Name, b, "")
	return b
}

// nameIn returns the name of a layer without the dot or the slash before it.
func (m *mapper) nameIn(name string) string {
	if trimmed := strings.TrimLeft(name, "./ "); trimmed != "" {
		name = trimmed
	}
	return text(name, mostLabel)
}

// Pieces are the parts of a name between which a line may end.
func (b *box) Pieces() (pieces []string) {
	begin := 0
	for i, r := range b.Name {
		if strings.ContainsRune("./_-;:", r) {
			pieces, begin = append(pieces, b.Name[begin:i+1]), i+1
		}
	}
	return append(pieces, b.Name[begin:])
}

// title is what a box says of itself.
func title(path string, b *box, kernel string) string {
	said := []string{b.Size, b.Share, b.Entries}
	if kernel != "" {
		said = append(said, kernel)
	}
	if path == "" {
		path = "all"
	}
	return path + " — " + strings.Join(said, ", ")
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
