package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A givingDisk notes what is given back, and when.
type givingDisk struct {
	store.File
	*givings
}

type givings struct {
	pages   [][]byte
	flushed int // how many of them came before the last flush
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

func (m givingMapping) GiveBack(start, end int) {
	m.pages = append(m.pages, m.Data()[start:end])
	m.Mapping.GiveBack(start, end)
}

func (d givingDisk) Flush() error {
	d.flushed = len(d.pages)
	return d.File.Flush()
}

func TestACommitGivesThePagesThatWerePackedIntoBackBeforeItFlushes(t *testing.T) {
	g := &givings{}
	w := mustOpen(t, givingFiles{newDir(t).Process(), g})
	require.NoError(t, w.begin())
	r, err := w.reserve("payload", 5<<20+1) // a segment of its own, which ends with it
	require.NoError(t, err)
	region := r.Region.Retain()
	require.NoError(t, w.handIn("payload", r))
	c, err := w.PrepareCommit([]format.Layout{testLayout}, []format.Record{w.packed["payload"]})
	require.NoError(t, err)
	g.pages = nil
	_, err = w.Conclude(c, c.Write())
	require.NoError(t, err)
	require.Equal(t, [][]byte{region.Data()}, g.pages)
	require.Equal(t, 1, g.flushed)
	require.NoError(t, region.Release())
	require.NoError(t, w.Close())
}
