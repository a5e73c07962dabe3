package files

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// largeFile is a cache file whose index is too large to be checked as a whole when it is opened.
func largeFile(t *testing.T) (m *tinyModel, content []byte, slot format.Slot) {
	t.Helper()
	m = newTinyModel(6000)
	content, err := os.ReadFile(m.file(t))
	require.NoError(t, err)
	h, err := format.DecodeHeader(content)
	require.NoError(t, err)
	require.Greater(t, h.Current.IndexSize, uint64(store.CheckedAtOnce))
	return m, content, h.Current
}

// use makes the calls of a runtime that uses these tensors, and checks the bytes it gets for each.
func (m *tinyModel) use(t *testing.T, c *xpwc.Cache, tensors []int) (hits int, err error) {
	t.Helper()
	s, err := c.NewSession(m)
	if err != nil {
		return 0, err
	}
	indexes := map[uintptr]int{}
	for _, i := range tensors {
		_, err := s.Load(m.names[i], xpwc.Believe())
		require.NoError(t, err)
		kernel := harness.Address(m.bytes(i))
		address := harness.LookUp(s, 1, kernel, 0)
		if address == harness.NotFound {
			space := harness.Reserve(s, tinyBytes)
			require.NotNil(t, space)
			copy(space, m.bytes(i))
			address = harness.Insert(s, 1, kernel, 0, harness.Address(space), tinyBytes)
		} else {
			hits++
		}
		indexes[address] = i
	}
	check := func() {
		hits := 0
		for _, e := range harness.User(s).Used() {
			i, ok := indexes[harness.Address(e.Data)]
			require.True(t, ok)
			require.Equal(t, m.bytes(i), e.Data, m.names[i])
			hits++
		}
		require.Equal(t, len(tensors), hits)
	}
	check()
	err = s.Finalize()
	saveErr := c.Save()
	check()
	require.NoError(t, s.Close())
	return hits, errors.Join(err, saveErr)
}

func everyTensor(m *tinyModel) []int { return rand.Perm(len(m.names)) }

func damagedFile(t *testing.T, content []byte, offset uint64) (path string) {
	t.Helper()
	content[offset] ^= 1 << (offset % 8)
	defer func() { content[offset] ^= 1 << (offset % 8) }()
	path = harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestALargeFileServesItsRecords(t *testing.T) {
	m, content, _ := largeFile(t)
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	c := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	hits, err := m.use(t, c, everyTensor(m))
	require.NoError(t, err)
	require.Equal(t, len(m.names), hits)
	require.Len(t, c.Names(), len(m.names))
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().WrittenBytes)
}

// Wherever a large index is damaged, all bytes are right, and the file is set aside as soon as somebody sees it.
func TestDamageThatALookUpFindsSetsTheFileAside(t *testing.T) {
	m, content, slot := largeFile(t)
	for name, offset := range map[string]uint64{
		"block sums": slot.IndexOffset + 400,
		"records":    slot.IndexOffset + slot.IndexSize/2,
		"table":      slot.IndexOffset + slot.IndexSize - uint64(len(m.names)*len("layers.1000.weight")) - 1000,
		"strings":    slot.IndexOffset + slot.IndexSize - 10,
	} {
		t.Run(name, func(t *testing.T) {
			path := damagedFile(t, content, offset)
			damaged, err := os.ReadFile(path)
			require.NoError(t, err)
			c := harness.Open(t, path, nil)
			hits, err := m.use(t, c, everyTensor(m))
			require.NoError(t, err)
			require.Less(t, hits, len(m.names))
			require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
			_, err = m.use(t, c, everyTensor(m)) // what was found before the damage is packed now
			require.NoError(t, err)
			require.NoError(t, c.Close())
			require.Empty(t, c.Stats().Private)

			aside, err := os.ReadFile(path + ".damaged")
			require.NoError(t, err)
			require.Equal(t, damaged, aside)
			c = harness.Open(t, path, &xpwc.Options{Strict: true})
			hits, err = m.use(t, c, everyTensor(m))
			require.NoError(t, err)
			require.Equal(t, len(m.names), hits)
			require.NoError(t, c.Close())
		})
	}
}

func TestDamageThatALookUpFindsIsAnErrorOfAStrictCache(t *testing.T) {
	m, content, slot := largeFile(t)
	path := damagedFile(t, content, slot.IndexOffset+slot.IndexSize/2)
	original, err := os.ReadFile(path)
	require.NoError(t, err)
	c := harness.Open(t, path, &xpwc.Options{Strict: true})
	_, err = m.use(t, c, everyTensor(m))
	require.ErrorIs(t, err, xpwc.ErrDamaged)
	_, err = c.NewSession(m)
	require.ErrorIs(t, err, xpwc.ErrDamaged)
	require.NoError(t, c.Close())
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, original, rewritten)
}

func TestDamageThatALookUpFindsLeavesAReadOnlyFileUnused(t *testing.T) {
	m, content, slot := largeFile(t)
	path := damagedFile(t, content, slot.IndexOffset+slot.IndexSize/2)
	c := harness.Open(t, path, &xpwc.Options{ReadOnly: true})
	_, err := m.use(t, c, everyTensor(m))
	require.NoError(t, err)
	require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
	hits, err := m.use(t, c, []int{1, 2, 3}) // intact ones
	require.NoError(t, err)
	require.Zero(t, hits)

	// The file is used again when there is a good one.
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	hits, err = m.use(t, c, everyTensor(m))
	require.NoError(t, err)
	require.Equal(t, len(m.names), hits)
	require.NoError(t, c.Close())
}

// A generation is made of the one before: damage that no look-up came upon must not get into it.
func TestAWriterFindsDamageThatNoLookUpFound(t *testing.T) {
	m, content, slot := largeFile(t)
	for name, o := range map[string]*xpwc.Options{"patient": nil, "impatient": {WriterWait: -1}} {
		t.Run(name, func(t *testing.T) {
			path := damagedFile(t, content, slot.IndexOffset+slot.IndexSize/2)
			c := harness.Open(t, path, o)
			hits, err := m.use(t, c, []int{0})
			require.NoError(t, err)
			require.Equal(t, 1, hits)
			require.NoError(t, c.Stats().Damaged)

			extra := newTinyModel(len(m.names) + 1)
			_, err = extra.use(t, c, []int{len(m.names)})
			require.NoError(t, err)
			require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
			require.FileExists(t, path+".damaged")
			require.Empty(t, c.Stats().Private, "nobody is writing: there is nothing to wait for")
			require.NoError(t, c.Close())
			require.Equal(t, 1, c.Stats().Entries)
		})
	}
}

func TestADamagedFileListsItsReadableNames(t *testing.T) {
	m, content, slot := largeFile(t)
	c := harness.Open(t, damagedFile(t, content, slot.IndexOffset+slot.IndexSize/2), nil)
	names := c.Names()
	require.NotEmpty(t, names)
	require.Less(t, len(names), len(m.names))
	require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
	require.NoError(t, c.Close())
}

func TestNoFlippedBitOfALargeIndexGivesAWrongByte(t *testing.T) {
	m, content, slot := largeFile(t)
	flips := 60
	if testing.Short() {
		flips = 10
	}
	random := testkit.Random(t)
	for range flips {
		offset := slot.IndexOffset + random.Uint64N(slot.IndexSize)
		path := damagedFile(t, content, offset)
		for _, o := range []xpwc.Options{{ReadOnly: true}, {Strict: true}} {
			c, err := xpwc.Open(path, &o)
			if err != nil {
				require.ErrorIs(t, err, xpwc.ErrDamaged, "byte %d", offset)
				continue
			}
			_, err = m.use(t, c, everyTensor(m)[:500])
			if err != nil {
				require.ErrorIs(t, err, xpwc.ErrDamaged, "byte %d", offset)
			}
			require.NoError(t, c.Close())
		}
	}
}

// A readingDisk calls before and after when it is read from.
type readingDisk struct {
	store.File
	hook, hookAfter func()
}

func (d readingDisk) ReadAt(b []byte, offset int64) (int, error) {
	d.hook()
	defer d.hookAfter()
	return d.File.ReadAt(b, offset)
}

// lookUpWhile looks one tensor up, while the disk of the loaded file is another. looks is set meanwhile.
func (m *tinyModel) lookUpWhile(t *testing.T, c *xpwc.Cache, d readingDisk, looks *atomic.Bool) (hit bool) {
	t.Helper()
	s, err := c.NewSession(m)
	require.NoError(t, err)
	_, err = s.Load(m.names[5000], xpwc.Believe())
	require.NoError(t, err)
	d.File = harness.Disk(c)
	harness.SetDisk(c, d)
	looks.Store(true)
	hit = harness.LookUp(s, 1, harness.Address(m.bytes(5000)), 0) != harness.NotFound
	looks.Store(false)
	require.NoError(t, s.Close())
	return hit
}

func doNothing() {}

// A file goes while a look-up reads its index: there is nothing to find then.
func TestALargeFileIsRemovedWhileItsIndexIsRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a removed file may keep its name until it is closed")
	}
	m, content, _ := largeFile(t)
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	c := harness.Open(t, path, nil)
	var looks atomic.Bool
	remove := func() {
		if looks.Swap(false) {
			require.NoError(t, os.Remove(path))
			harness.NewSession(t, c, nil)
		}
	}
	require.False(t, m.lookUpWhile(t, c, readingDisk{nil, doNothing, remove}, &looks))
	require.NoError(t, c.Stats().Damaged)
}

// A look-up reads the index of a file while another session opens that for writing: it is not damaged.
func TestALargeFileIsOpenedForWritingWhileItsIndexIsRead(t *testing.T) {
	m, content, _ := largeFile(t)
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	c := harness.Open(t, path, nil)
	var looks atomic.Bool
	opened, begun := make(chan bool), make(chan bool, 1)
	harness.SetFiles(c, harness.WrappedForWriting{WrappedFiles: harness.WrappedFiles{Files: osdisk.Files{},
		Wrap: func(d store.File, err error) (store.File, error) {
			close(opened)
			return d, err
		}}})
	begin := func() {
		if looks.Swap(false) {
			go harness.Probe(c).File(func(st *store.Store) {
				ok, err := st.Begin()
				begun <- ok && err == nil
			})
			<-opened
		}
	}
	require.True(t, m.lookUpWhile(t, c, readingDisk{nil, begin, doNothing}, &looks))
	require.True(t, <-begun)
	harness.Probe(c).GiveUp()
	require.NoError(t, c.Stats().Damaged)
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".damaged")
}
