package htmlreport

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"path/filepath"
	"reflect"

	"xpwc/cachefile"
	"xpwc/internal/console"
)

// shortDigest is how many digits of a digest tables have.
const shortDigest = 8

// A page is what the template shows, which writes all texts by functions that make them printable and short.
type page struct {
	*survey
	Options
	Policy template.HTMLAttr // of what the page may load and run: its own script and styles
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

// rest says how many it has no room for.
func rest(rows any, what string) string {
	if n := reflect.ValueOf(rows).Len() - mostRows; n > 0 {
		return "And " + console.Plural(n, what) + "."
	}
	return ""
}
