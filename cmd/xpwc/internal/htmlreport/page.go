package htmlreport

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"path/filepath"
	"reflect"
	"strings"

	"xpwc/cachefile"
	"xpwc/internal/console"
)

// shortDigest is how many digits of a digest tables have.
const shortDigest = 8

// A page is the template's data. The template writes all texts by functions that make them printable and short.
type page struct {
	*survey
	Options
	Policy template.HTMLAttr // of the page's own script and styles, all that it may load
	Style  template.CSS
	Script template.JS

	Map    *box
	Layers int // that the tree shows
}

// A box is a layer, in the treemap and in the tree.
type box struct {
	ID                       int
	Name, Title, Size, Share string
	Entries, Class           string
	Place, Width             template.CSS
	Group                    bool
	Children                 []*box
}

var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	styleSource string
	//go:embed zoom.js
	scriptSource string

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"first":   first,
		"name":    func(s string) string { return text(s, mostName) },
		"path":    func(s string) string { return text(s, 4*mostName) },
		"percent": percent,
		"plural":  console.Plural,
		"rest":    rest,
		"share":   console.Percent,
		"size":    console.Size,
		"whose":   Whose,
	}).Parse(pageSource))
)

// text makes a text of a file fit the page.
func text(s string, most int) string {
	if limit := 8 * most; len(s) > limit {
		s = s[:limit/2] + "…" + s[len(s)-limit/2:]
	}
	return console.Shorten(console.Printable(s), most)
}

func newPage(s *survey, o Options) *page {
	p := &page{survey: s, Options: o, Style: template.CSS(styleSource), Script: template.JS(scriptSource),
		Policy: policy()}
	p.addMap()
	return p
}

// policy allows the page its own script and styles, and no request.
func policy() template.HTMLAttr {
	sum := sha256.Sum256([]byte(scriptSource))
	return template.HTMLAttr(fmt.Sprintf(`content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; `+
		`script-src 'sha256-%s'; base-uri 'none'; form-action 'none'"`, base64.StdEncoding.EncodeToString(sum[:])))
}

// Title is the name of the file.
func (p *page) Title() string { return text(filepath.Base(p.Path), mostName) }

// Notes are about the whole file, and what is wrong with parts of it.
func (p *page) Notes() (notes []string) {
	for _, note := range p.Options.Notes {
		notes = append(notes, text(note, 4*mostName))
	}
	for _, slot := range p.Info.Slots {
		if slot.State == cachefile.SlotTorn {
			const torn = "The slot of the header at %d is invalid: after a crash, or by damage."
			notes = append(notes, fmt.Sprintf(torn, slot.Offset))
		}
	}
	for i, err := range p.Damaged {
		if i == mostRows/10 {
			return append(notes, fmt.Sprintf("And %d more.", len(p.Damaged)-i))
		}
		notes = append(notes, "Damaged: "+text(err.Error(), 2*mostName))
	}
	return notes
}

// IsHere reports whether a layout is this machine's.
func (p *page) IsHere(l cachefile.Layout) bool {
	return l.Fingerprint == p.Here && p.Here != cachefile.Digest{}
}

// A part is a kind of bytes of the file.
type part struct {
	kind              cachefile.Kind
	Name, Class, Note string
	Bytes             int64
}

// parts are the kinds of bytes, in the order of the bar.
var parts = []part{
	{cachefile.Payload, "payloads", "payload", "packed weights", 0},
	{cachefile.Header, "header", "header", "what the file is, and where the index lies", 0},
	{cachefile.Index, "index", "index", "how entries are found, and their checksums", 0},
	{cachefile.Trailer, "index for ExecuTorch", "trailer", "the end of the file", 0},
	{cachefile.Padding, "padding", "padding", "aligns what follows it", 0},
	{cachefile.OldIndex, "old indexes", "old", "dead: of generations before the one in force", 0},
	{cachefile.Dead, "other dead bytes", "dead", "nothing refers to them", 0},
	{cachefile.Uncommitted, "uncommitted", "uncommitted", "a program is writing, or was killed", 0},
}

// Parts are the kinds of bytes that the file has.
func (p *page) Parts() (all []part) {
	for _, k := range parts {
		for _, segment := range p.segments {
			if segment.Kind == k.kind {
				k.Bytes += segment.Size
			}
		}
		if k.Bytes > 0 {
			all = append(all, k)
		}
	}
	return all
}

// percent is a style that is a part of a whole.
func percent(property string, part, whole int64) template.CSS {
	return template.CSS(fmt.Sprintf("%s:%.3f%%", property, 100*float64(part)/float64(max(whole, 1))))
}

// first returns the rows of a slice that a table has room for.
func first(rows any) any {
	all := reflect.ValueOf(rows)
	return all.Slice(0, min(all.Len(), mostRows)).Interface()
}

// rest counts the rows that the table has no room for.
func rest(rows any, what string) string {
	if n := reflect.ValueOf(rows).Len() - mostRows; n > 0 {
		return "And " + console.Plural(n, what) + "."
	}
	return ""
}

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
		class = "closed" // the page has no room for its children
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
