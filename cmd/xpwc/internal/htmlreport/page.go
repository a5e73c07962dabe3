package htmlreport

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/packing"
)

// shortDigest is how many digits of a digest tables have.
const shortDigest = 8

// A page is what the template shows. All texts in it are printable and short.
type page struct {
	Policy template.HTMLAttr // of what the page may load and run: its own script and styles
	Style  template.CSS
	Script template.JS

	Title, Path, Where, Kind string
	Notes                    []string
	Figures                  []figure
	Parts                    []part
	File                     string // size

	Colours []colourRow
	Map     *box
	Layers  int // that the tree shows

	Native   bool
	Layouts  []layoutRow
	Kernels  []kernelRow
	Unlisted string // layouts and kernels that there is no room for

	Sharing                 string
	Equal                   string
	Shared                  []sharedRow
	Sources                 []sourceRow
	MoreShared, MoreSources string
	Dead                    []deadRow
	DeadBytes, Uncommitted  string
	MoreDead                string
	Commits                 []commitRow
	MoreCommits             string
	Checks                  string
	Sound, Checked          bool
	Problems                []problemRow
	MoreProblems            string
	Largest                 []entryRow
	MoreEntries             string

	Tool, Made string
}

// A figure is one of those at the top.
type figure struct{ Name, Value, Note, Class string }

// A part is a kind of bytes of the file.
type part struct {
	Name, Class, Size, Share, Note string
	Width                          template.CSS
}

type colourRow struct{ Name, Class, Size, Share string }

// A box is a layer, in the treemap and in the tree.
type box struct {
	ID                       int
	Name, Title, Size, Share string
	Entries, Class           string
	Place, Width             template.CSS
	Group                    bool
	Children                 []*box
}

type layoutRow struct {
	Fingerprint, Description, Entries, Size, Share string
	Here                                           bool
}

type kernelRow struct {
	Layout, Operator, Input, Kernel, Bias, Output, Entries, Size, Share, Class string
}

type sharedRow struct{ Names, More, Entries, Sources, Size, Spared string }

type sourceRow struct{ Name, Entries, Size, Shared string }

type deadRow struct{ Offset, Size, What string }

type commitRow struct {
	Generation, Entries, Added, Bytes, Removed, Packed, Index string
	InForce                                                   bool
}

type problemRow struct{ Offset, What, Entry string }

type entryRow struct {
	Name, Layout, Kernel, Kind, Size, Share, Offset, Used string
}

// text makes a text of a file fit the page.
func text(s string, most int) string {
	if limit := 8 * most; len(s) > limit {
		s = s[:limit/2] + "…" + s[len(s)-limit/2:]
	}
	return console.Shorten(console.Printable(s), most)
}

func newPage(s *survey, o Options) *page {
	info := s.info
	p := &page{
		Style: template.CSS(styleSource), Script: template.JS(scriptSource), Policy: policy(),
		Title: text(filepath.Base(o.Path), mostName), Path: text(o.Path, 4*mostName), Where: text(o.Where, 4*mostName),
		Native: info.Format == cachefile.Native, File: console.Size(info.FileBytes), Tool: text(o.Tool, mostName),
	}
	if p.Path == p.Title {
		p.Path = ""
	}
	if !o.Made.IsZero() {
		p.Made = o.Made.UTC().Format("2006-01-02 15:04 UTC")
	}
	switch info.Format {
	case cachefile.Native:
		p.Kind = fmt.Sprintf("Packed weights cache, format version %d, generation %d", info.Version, info.Generation)
	default:
		p.Kind = fmt.Sprintf("ExecuTorch's packed weights cache, version %d", info.Version)
	}
	for _, slot := range info.Slots {
		if slot.State == cachefile.SlotTorn {
			const torn = "The slot of the header at %d is invalid: after a crash, or by damage."
			p.Notes = append(p.Notes, fmt.Sprintf(torn, slot.Offset))
		}
	}
	for i, err := range s.damaged {
		if i == mostRows/10 {
			p.Notes = append(p.Notes, fmt.Sprintf("And %d more.", len(s.damaged)-i))
			break
		}
		p.Notes = append(p.Notes, "Damaged: "+text(err.Error(), 2*mostName))
	}
	p.addParts(s)
	p.addMap(s)
	p.addLayouts(s, o.Here)
	p.addShared(s)
	p.addDead(s)
	p.addCommits(s)
	p.addChecks(o)
	p.addLargest(s)
	p.addFigures(s, o.Here)
	return p
}

// policy allows the page its own script and styles, and no request.
func policy() template.HTMLAttr {
	sum := sha256.Sum256([]byte(scriptSource))
	return template.HTMLAttr(fmt.Sprintf(`content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; `+
		`script-src 'sha256-%s'; base-uri 'none'; form-action 'none'"`, base64.StdEncoding.EncodeToString(sum[:])))
}

func (p *page) addFigures(s *survey, here cachefile.Digest) {
	info := s.info
	add := func(name, value, note, class string) { p.Figures = append(p.Figures, figure{name, value, note, class}) }
	add("File", p.File, console.Size(info.PayloadBytes)+" of it payloads", "")
	note := ""
	if s.variants > 0 {
		note = number(s.variants) + " variants"
	}
	add("Entries", number(info.Entries), note, "")
	if p.Native {
		add("Layouts", number(len(info.Layouts)), hereNote(info.Layouts, here), "")
		add("Shared", console.Size(s.spared), "more without sharing", "")
		add("Dead", console.Size(info.DeadBytes), console.Percent(info.DeadBytes, info.FileBytes)+" of the file", "")
	}
	switch {
	case !p.Checked:
		add("Checksums", "not checked", "made without --verify", "unsure")
	case p.Sound && p.Native:
		add("Checksums", "✓ right", "all were compared", "good")
	case p.Sound:
		add("Checksums", "none", "ExecuTorch's files have none", "unsure")
	default:
		add("Checksums", "✗ damaged", "see below", "bad")
	}
}

// hereNote says whether this machine's layout is among those of the file.
func hereNote(layouts []cachefile.Layout, here cachefile.Digest) string {
	switch {
	case len(layouts) == 0 || here == (cachefile.Digest{}):
		return ""
	case slices.ContainsFunc(layouts, func(l cachefile.Layout) bool { return l.Fingerprint == here }):
		return "one is this machine’s"
	}
	return "none is this machine’s"
}

// kinds are the kinds of bytes, in the order of the bar.
var kinds = []struct {
	kind        cachefile.Kind
	name, class string
	note        string
}{
	{cachefile.Payload, "payloads", "payload", "packed weights"},
	{cachefile.Header, "header", "header", "what the file is, and where the index lies"},
	{cachefile.Index, "index", "index", "how entries are found, and their checksums"},
	{cachefile.Trailer, "index for ExecuTorch", "trailer", "the end of the file"},
	{cachefile.Padding, "padding", "padding", "aligns what follows it"},
	{cachefile.OldIndex, "old indexes", "old", "dead: of generations before the one in force"},
	{cachefile.Dead, "other dead bytes", "dead", "nothing refers to them"},
	{cachefile.Uncommitted, "uncommitted", "uncommitted", "a program is writing, or was killed"},
}

func (p *page) addParts(s *survey) {
	total := map[cachefile.Kind]int64{}
	for _, segment := range s.segments {
		total[segment.Kind] += segment.Size
	}
	for _, k := range kinds {
		if n := total[k.kind]; n > 0 {
			p.Parts = append(p.Parts, part{k.name, k.class, console.Size(n), console.Percent(n, s.info.FileBytes),
				k.note, percent("width", n, s.info.FileBytes)})
		}
	}
}

// percent is a style that is a part of a whole.
func percent(property string, part, whole int64) template.CSS {
	return template.CSS(fmt.Sprintf("%s:%.3f%%", property, 100*float64(part)/float64(max(whole, 1))))
}

func (p *page) addLayouts(s *survey, here cachefile.Digest) {
	info := s.info
	for i, l := range info.Layouts {
		if i == mostRows {
			p.Unlisted = more(len(info.Layouts)-i, "layout")
			break
		}
		p.Layouts = append(p.Layouts, layoutRow{l.Fingerprint.String(), text(l.Description, mostName),
			number(l.Entries), console.Size(l.PayloadBytes), console.Percent(l.PayloadBytes, info.PayloadBytes),
			l.Fingerprint == here && here != (cachefile.Digest{})})
	}
	for i, k := range s.kernels {
		if i == mostRows {
			p.Unlisted = strings.TrimSpace(p.Unlisted + " " + more(len(s.kernels)-i, "row"))
			break
		}
		if !p.Native {
			break
		}
		r := kernelRow{Layout: k.layout.String()[:shortDigest], Operator: "not recorded", Entries: number(k.entries),
			Size: console.Size(k.bytes), Share: console.Percent(k.bytes, info.PayloadBytes),
			Class: classOf(s, k.family)}
		if f := k.family; f != (packing.Family{}) {
			r.Operator, r.Input, r.Kernel = f.Operator.String(), f.Input.String(), f.Kernel.String()
			r.Bias, r.Output = f.Bias.String(), f.Output.String()
		}
		p.Kernels = append(p.Kernels, r)
	}
}

func (p *page) addShared(s *survey) {
	if !p.Native {
		return
	}
	p.Sharing = fmt.Sprintf("%s are of several entries each, which spares %s.", console.Plural(s.sharing, "payload"),
		console.Size(s.spared))
	switch {
	case s.sharing == 0:
		p.Sharing = "Each entry has a payload of its own."
	case s.sharing == 1:
		p.Sharing = fmt.Sprintf("1 payload is of several entries, which spares %s.", console.Size(s.spared))
	}
	switch {
	case s.equal == 1:
		p.Equal = fmt.Sprintf("By its checksum, 1 payload is a copy of another, %s.", console.Size(s.again))
	case s.equal > 1:
		p.Equal = fmt.Sprintf("By their checksums, %s payloads are copies of others, %s.", number(s.equal),
			console.Size(s.again))
	}
	for _, shared := range s.shared {
		var names []string
		for _, name := range shared.names {
			names = append(names, text(name, mostName/2))
		}
		r := sharedRow{Names: strings.Join(names, ", "), Entries: number(shared.entries),
			Sources: number(shared.sources), Size: console.Size(shared.size), Spared: console.Size(shared.spared())}
		if n := shared.entries - len(names); n > 0 {
			r.More = fmt.Sprintf("and %s more", number(n))
		}
		p.Shared = append(p.Shared, r)
	}
	p.MoreShared = more(s.sharing-len(p.Shared), "payload")
	for i, from := range s.sources {
		if i == mostRows {
			p.MoreSources = more(len(s.sources)-i, "source")
			break
		}
		name := from.digest.String()
		if from.digest == (cachefile.Digest{}) {
			name = "not recorded"
		}
		p.Sources = append(p.Sources,
			sourceRow{name, number(from.entries), console.Size(from.bytes), console.Size(from.shared)})
	}
}

func (p *page) addDead(s *survey) {
	p.DeadBytes = console.Size(s.info.DeadBytes)
	if s.info.UncommittedBytes > 0 {
		p.Uncommitted = console.Size(s.info.UncommittedBytes)
	}
	left := 0
	for _, segment := range s.segments {
		what := ""
		switch segment.Kind {
		case cachefile.OldIndex:
			what = "index of a generation before the one in force"
		case cachefile.Dead:
			what = "replaced payloads, or the end of a generation before the one in force"
		case cachefile.Uncommitted:
			what = "uncommitted"
		default:
			continue
		}
		if len(p.Dead) == mostRows {
			left++
			continue
		}
		p.Dead = append(p.Dead, deadRow{fmt.Sprint(segment.Offset), console.Size(segment.Size), what})
	}
	p.MoreDead = more(left, "place")
}

func (p *page) addCommits(s *survey) {
	commits := s.commits
	if n := len(commits) - mostRows; n > 0 {
		p.MoreCommits = more(n, "older commit")
		commits = commits[n:]
	}
	for _, c := range commits {
		r := commitRow{Generation: number64(c.Generation), Entries: number(c.Entries), Added: number(c.Added.Entries),
			Bytes: console.Size(c.Added.Bytes), Removed: console.None, Packed: console.None,
			Index: console.Size(c.IndexBytes), InForce: c.InForce}
		if c.RemovedEntries > 0 {
			r.Removed = number(c.RemovedEntries)
		}
		if c.Added.Entries > 0 {
			r.Packed = between(c.Added.First, c.Added.Last)
		}
		p.Commits = append(p.Commits, r)
	}
}

// between writes two times, the second without what it has in common with the first.
func between(first, last time.Time) string {
	from, to := first.UTC().Format("2006-01-02 15:04:05"), last.UTC().Format("2006-01-02 15:04:05")
	switch {
	case from == to:
		return from
	case from[:10] == to[:10]:
		return from + " to " + to[11:]
	}
	return from + " to " + to
}

func (p *page) addChecks(o Options) {
	p.Checked, p.Sound = o.Checked, len(o.Problems) == 0
	for i, problem := range o.Problems {
		if i == mostRows {
			p.MoreProblems = more(len(o.Problems)-i, "problem")
			break
		}
		p.Problems = append(p.Problems, problemRow{fmt.Sprint(problem.Offset), text(problem.What, 2*mostName),
			text(problem.Name, mostName)})
	}
}

func (p *page) addLargest(s *survey) {
	for _, e := range s.largest {
		r := entryRow{Name: text(nameOf(&e), mostName), Size: console.Size(e.Size),
			Share: console.Percent(e.Size, s.info.PayloadBytes), Offset: fmt.Sprint(e.Offset)}
		if p.Native {
			r.Layout, r.Used = e.Layout.String()[:shortDigest], e.UsedAt.Format(time.DateOnly)
			r.Kernel = colourOf(e.Family)
			if r.Kernel == noColour {
				r.Kernel = "not recorded"
			}
			var kind []string
			if e.Variant {
				kind = append(kind, "variant")
			}
			if e.Tied {
				kind = append(kind, "tied")
			}
			r.Kind = strings.Join(kind, ", ")
		}
		p.Largest = append(p.Largest, r)
	}
	p.MoreEntries = more(s.info.Entries-len(s.damaged)-len(p.Largest), "smaller entry")
}

// more says what a table has no room for.
func more(n int, what string) string {
	if n <= 0 {
		return ""
	}
	return "And " + strings.Replace(console.Plural(n, what), fmt.Sprint(n), number(n), 1) + "."
}

func number(n int) string { return number64(uint64(max(n, 0))) }

// number64 writes a number with its digits in groups of three.
func number64(n uint64) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "\u2009" + digits[at:]
	}
	return digits
}
