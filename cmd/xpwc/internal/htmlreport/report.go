package htmlreport

import (
	"io"
	"time"

	"xpwc/cachefile"
	"xpwc/litert"
)

// MaxBytes is more than any page has, in bytes.
const MaxBytes = 4 << 20

// Mark is in the first 1024 bytes of each page.
const Mark = `<meta name="generator" content="xpwc report"/>`

// Of what may be long, a page shows so much.
const (
	mostBoxes  = 1200 // of the treemap, and rows of the tree of layers
	mostRows   = 100  // of each table
	mostLabel  = 48   // characters of a box or a row of the tree
	mostName   = 120  // characters of a name elsewhere
	mostLayers = 12   // from the root to an entry; what is deeper is in the last one's name
)

// Options say what a page shows beside what is in the file. All may be left out.
type Options struct {
	Path    string           // of the file
	Where   string           // where in the file the cache is, if it is not the whole file
	Here    cachefile.Digest // this machine's layout; zero where it is not known
	Warning string           // of the whole file
	Tool    string           // what made the page
	Made    time.Time
}

// A Report is what a page shows of a file.
type Report struct {
	page *page
	// Damaged are the records that could not be read. The page says so, and shows the rest.
	Damaged []error
}

// New looks at a file, which is not needed any more afterwards. The error is of reading.
func New(f *cachefile.File, o Options) (*Report, error) {
	s, err := look(f)
	if err != nil {
		return nil, err
	}
	return &Report{newPage(s, o), s.damaged}, nil
}

// NewLiteRT is New for a file of LiteRT.
func NewLiteRT(f *litert.File, o Options) *Report { return &Report{page: newPage(lookLiteRT(f), o)} }

// Write writes the page.
func (r *Report) Write(w io.Writer) error { return pageTemplate.Execute(w, r.page) }
