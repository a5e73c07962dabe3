package htmlreport

import (
	"io"
	"iter"
	"time"

	"xpwc/cachefile"
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
	Path  string           // of the file
	Here  cachefile.Digest // this machine's layout; zero where it is not known
	Notes []string         // about the whole file
	Tool  string           // what made the page
	Made  time.Time
}

// A File is a cache file of any kind.
type File interface {
	Info() (cachefile.Info, error)
	Map() ([]cachefile.Segment, error)
	Commits() ([]cachefile.Commit, error)
	Entries() iter.Seq2[cachefile.Entry, error] // in the order of their payloads
}

// Write writes a page about a file. Damaged are the records that could not be read: the page says so, and shows the
// rest.
func Write(w io.Writer, f File, o Options) (damaged []error, err error) {
	s, err := look(f)
	if err != nil {
		return nil, err
	}
	return s.Damaged, pageTemplate.Execute(w, newPage(s, o))
}
