package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A givingDisk notes what is given back, and what is mapped then.
type givingDisk struct {
	store.File
	*givings
}

type givings struct {
	calls   []givenBack
	flushed int // how many of the calls came before the last flush
}

type givenBack struct {
	pages  []byte
	mapped []byte // of these pages, directly afterwards
}

type givingFiles struct {
	store.Files
	*givings
}

func (f givingFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return givingDisk{d, f.givings}, err
}

func (d givingDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	m, err := d.File.Map(offset, size, writable)
	return givingMapping{m, d.givings}, err
}

type givingMapping struct {
	store.Mapping
	*givings
}

func (m givingMapping) GiveBack(from, to int) {
	m.calls = append(m.calls, givenBack{pages: m.Data()[from:to]})
	m.Mapping.GiveBack(from, to)
}

func (m givingMapping) PopulateCached(from, to int) error {
	m.calls[len(m.calls)-1].mapped = m.Data()[from:to]
	return m.Mapping.PopulateCached(from, to)
}

func (d givingDisk) Flush() error {
	d.flushed = len(d.calls)
	return d.File.Flush()
}

// packedInOne packs a payload into a segment of its own, which ends with it, and lays a commit of it out.
func packedInOne(t *testing.T, g *givings, size int) (*writer, *store.Region, *store.Commit) {
	t.Helper()
	w := mustOpen(t, givingFiles{newDir(t).Process(), g})
	require.NoError(t, w.begin())
	r, err := w.reserve("payload", size)
	require.NoError(t, err)
	region := r.Region.Retain()
	require.NoError(t, w.handIn("payload", r))
	c, err := w.PrepareCommit([]format.Layout{here}, []format.Record{w.packed["payload"]})
	require.NoError(t, err)
	g.calls = nil
	return w, region, c
}

func TestWhatIsReadIsMappedAgainByTheCommitThatGivesItsPagesBack(t *testing.T) {
	const size = 5<<20 + 1
	for name, read := range map[string]bool{"read": true, "not read": false} {
		t.Run(name, func(t *testing.T) {
			g := &givings{}
			w, region, c := packedInOne(t, g, size)
			if read {
				c.Reads(region)
				c.Reads(region)
			}
			_, err := w.Conclude(c, c.Write())
			require.NoError(t, err)
			require.Equal(t, len(g.calls), g.flushed, "all of it comes before the flush")
			require.Len(t, g.calls, 3)
			given, mapped := 0, 0
			for _, part := range g.calls {
				require.Equal(t, start(region.Data())+uintptr(given), start(part.pages))
				given += len(part.pages)
				mapped += len(part.mapped)
				if read {
					require.Equal(t, start(part.pages), start(part.mapped))
				}
			}
			require.Equal(t, len(region.Data()), given)
			if read {
				require.Equal(t, size, mapped)
			} else {
				require.Zero(t, mapped)
			}
			require.NoError(t, region.Release())
			require.NoError(t, w.Close())
		})
	}
}
