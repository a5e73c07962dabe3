// Package htmlreport makes a page about a cache file: HTML in one piece, which asks for nothing from anywhere. It says
// what the bytes of the file are by layer, for which layouts they were packed, what is stored once for several, what is
// dead, and what each commit added. It says nothing that the file does not record.
//
// Everything on the page can be read without the script in it, which only zooms into the treemap. Names come out of
// files that anybody may have written: they are escaped, what is not printable in them is replaced, and what is too
// long is shortened. A page has at most [MaxBytes] bytes: what is small is put together, and tables end.
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

// Options are what a page shows in addition to the file's content. All may be left out.
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
