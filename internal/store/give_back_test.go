package store_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A givingDisk notes what is given back, and what is mapped then.
type givingDisk struct {
	store.Disk
	*givings
}

type givings struct {
	calls   []givenBack
	flushed int    // how many of the calls came before the last flush
	giving  func() // is called by the next

	mu       sync.Mutex
	under    bool // something is being given back
	detached bool
	wrong    error
}

type givenBack struct {
	pages  []byte
	mapped []byte // of these pages, directly afterwards
}

type givingFiles struct {
	store.Files
	*givings
}

func (f givingFiles) Create(path string) (store.Disk, error) {
	d, err := f.Files.Create(path)
	return givingDisk{d, f.givings}, err
}

func (d givingDisk) GiveBack(b []byte) {
	d.calls = append(d.calls, givenBack{pages: b})
	d.mark(true)
	if d.giving != nil {
		d.giving()
	}
	for range 1000 { // others come to their turn
		runtime.Gosched()
	}
	d.mark(false)
	d.Disk.GiveBack(b)
}

func (g *givings) mark(under bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under = under
	if g.detached {
		g.wrong = errors.New("pages of private memory are given back")
	}
}

func (d givingDisk) Detach(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detached = true
	if d.under {
		d.wrong = errors.New("it became private memory while pages were given back")
	}
	return d.Disk.Detach(b)
}

func (d givingDisk) PopulateCached(offset int64, b []byte) error {
	d.calls[len(d.calls)-1].mapped = b
	return d.Disk.PopulateCached(offset, b)
}

func (d givingDisk) Flush() error {
	d.flushed = len(d.calls)
	return d.Disk.Flush()
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

// A region that becomes private memory while its pages are given back has its bytes nowhere else.
func TestNothingIsGivenBackOfPrivateMemory(t *testing.T) {
	g := &givings{}
	w, region, c := packedInOne(t, g, 7<<20)
	began, detached := make(chan bool), make(chan error, 1)
	g.giving = func() {
		g.giving = nil
		go func() {
			close(began)
			detached <- w.Detach(region)
		}()
		<-began
	}
	require.NoError(t, c.Write())
	require.NoError(t, <-detached)
	require.NoError(t, g.wrong)
	require.NotEmpty(t, g.calls)
	_, err := w.Conclude(c, nil)
	require.NoError(t, err)
	require.NoError(t, region.Release())
	require.NoError(t, w.Close())
}
