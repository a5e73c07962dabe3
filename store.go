package xpwc

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"xpwc/internal/format"
)

const packedAlignment = format.Alignment

// Space is preallocated and mapped in segments that double from the first size to the last, so that small models stay
// small and large ones do not pay a system call for each entry.
const (
	firstSegment = 4 << 20
	lastSegment  = 64 << 20
)

// A store is one cache file: it finds what was committed, reserves space to pack into, and commits. It knows bytes and
// records but no policy. Its methods must not be called at the same time, except for commit.write.
type store struct {
	path     string
	insecure bool
	readOnly bool

	// The seam for tests.
	openDisk   func(path string, writable, insecure bool) (disk, error)
	createDisk func(path string) (disk, error)

	disk  disk // nil while there is no file
	id    [16]byte
	slot  format.Slot   // the generation in force
	index *format.Index // of the generation that was in force when the file was loaded; nil while there is none
	base  *region       // the committed part of the file as it was loaded

	locked   bool      // we are the writer
	tail     uint64    // file offset behind the last reservation
	segment  *region   // where the next reservation comes from, or nil
	writable []*region // segments not yet read-only
	growth   uint64    // size of the next segment
}

// load opens the file and reads the generation in force. It leaves the store empty, without an error, when there is no
// file. ErrCorrupt, ErrVersion, ErrNotCache and ErrForeign say what else there is.
func (st *store) load() error {
	d, err := st.openDisk(st.path, !st.readOnly, st.insecure)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if (errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnlyFileSystem)) && !st.readOnly {
		st.readOnly = true
		d, err = st.openDisk(st.path, false, st.insecure)
	}
	if err != nil {
		return fmt.Errorf("open cache: %w", err)
	}
	st.disk = d
	if err := st.reload(); err != nil {
		st.disk = nil
		_ = d.Close()
		return err
	}
	return nil
}

// reload reads the header and, if another generation is in force than the one loaded, maps and checks that one. What was
// mapped before stays mapped for whoever uses it.
func (st *store) reload() error {
	size, err := st.disk.Size()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	block := make([]byte, min(size, format.HeaderSize))
	if _, err := st.disk.ReadAt(block, 0); err != nil {
		return fmt.Errorf("read the header of cache %s: %w", st.path, err)
	}
	h, err := format.DecodeHeader(block)
	switch {
	case size <= format.HeaderSize && !slices.ContainsFunc(block, func(b byte) bool { return b != 0 }):
		return nil // as a crash between creating the file and writing its header leaves it
	case errors.Is(err, format.ErrMagic):
		return st.notOurs(size)
	case errors.Is(err, format.ErrVersion):
		return fmt.Errorf("%s: %w", st.path, ErrVersion)
	case err != nil:
		return fmt.Errorf("%s: %w (%w)", st.path, ErrCorrupt, err)
	}
	if h.ID == st.id && h.Current.Generation == st.slot.Generation {
		if uint64(size) < st.slot.End {
			return fmt.Errorf("%s: %w: it was truncated to %d bytes of %d", st.path, ErrCorrupt, size, st.slot.End)
		}
		return nil
	}
	slot := h.Current
	if slot.Generation == 0 {
		st.id, st.slot, st.index = h.ID, slot, nil
		return st.dropBase()
	}
	if slot.End > uint64(size) {
		return fmt.Errorf("%s: %w: it has %d bytes of %d", st.path, ErrCorrupt, size, slot.End)
	}
	data, err := st.disk.Map(0, int(slot.End), false)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	index, err := format.DecodeIndex(data[slot.IndexOffset:slot.IndexOffset+slot.IndexSize], slot)
	if err != nil {
		_ = st.disk.Unmap(data)
		return fmt.Errorf("%s: %w (%w)", st.path, ErrCorrupt, err)
	}
	if err := st.dropBase(); err != nil {
		return err
	}
	st.id, st.slot, st.index = h.ID, slot, index
	st.base = &region{data: data, unmap: st.disk.Unmap, refs: 1, sealed: true}
	return nil
}

// notOurs tells a file written by ExecuTorch from one that is no cache at all.
func (st *store) notOurs(size int64) error {
	_, _, err := format.DecodeTrailer(uint64(size), func(b []byte, offset uint64) error {
		_, err := st.disk.ReadAt(b, int64(offset))
		return err
	})
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", st.path, ErrForeign)
	case errors.Is(err, format.ErrCorrupt), errors.Is(err, format.ErrVersion):
		return fmt.Errorf("%s: %w (%w)", st.path, ErrForeign, err)
	default:
		return fmt.Errorf("%s: %w", st.path, ErrNotCache)
	}
}

func (st *store) dropBase() error {
	if st.base == nil {
		return nil
	}
	r := st.base
	st.base = nil
	return r.release()
}

// refresh picks up what other processes committed since.
func (st *store) refresh() error {
	if st.locked {
		return nil // nobody else writes
	}
	if st.disk == nil {
		return st.load()
	}
	replaced, err := st.disk.Replaced()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	if replaced {
		return st.reopen()
	}
	return st.reload()
}

// reopen follows the path to the file that is there now. Mappings of the old one stay for whoever uses them.
func (st *store) reopen() error {
	old := st.disk
	st.disk, st.id, st.slot, st.index = nil, [16]byte{}, format.Slot{}, nil
	if err := errors.Join(st.dropBase(), old.Close()); err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return st.load()
}

// begin makes this process the writer, creating the file if there is none. ok is false if another process is the
// writer. What others committed meanwhile is loaded first, so look-ups that missed before may now hit.
func (st *store) begin() (ok bool, err error) {
	if st.locked {
		return true, nil
	}
	if st.disk == nil {
		if err := st.create(); err != nil {
			return false, err
		}
	}
	if ok, err := st.disk.TryLock(); err != nil || !ok {
		return false, err
	}
	st.locked = true
	if err := st.prepare(); err != nil {
		return false, errors.Join(err, st.end())
	}
	return true, nil
}

// prepare brings the locked file into a state that can be appended to.
func (st *store) prepare() error {
	replaced, err := st.disk.Replaced()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	if replaced {
		return fmt.Errorf("cache %s: %w", st.path, errReplaced)
	}
	if err := st.reload(); err != nil {
		return err
	}
	if st.id == [16]byte{} {
		if err := st.writeHeader(); err != nil {
			return err
		}
	}
	size, err := st.disk.Size()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	st.tail = max(st.slot.End, format.HeaderSize)
	// What lies behind the committed end is what a killed writer left: nobody maps it.
	if uint64(size) > st.tail {
		if err := st.disk.Truncate(int64(st.tail)); err != nil {
			return fmt.Errorf("cache %s: %w", st.path, err)
		}
	}
	return nil
}

func (st *store) create() error {
	d, err := st.createDisk(st.path)
	if errors.Is(err, fs.ErrExist) {
		if err := st.load(); err != nil {
			return err
		}
		if st.disk == nil {
			return fmt.Errorf("cache %s: %w", st.path, errReplaced)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cache: %w", err)
	}
	st.disk = d
	return nil
}

// writeHeader makes an empty file a cache. The header is flushed at once: without it, nobody would know after a power
// failure whose file this is.
func (st *store) writeHeader() error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	if err := st.disk.Allocate(0, format.HeaderSize); err != nil {
		return err
	}
	if _, err := st.disk.WriteAt(format.NewHeader(id), 0); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := st.disk.Flush(); err != nil {
		return err
	}
	st.id, st.slot, st.index = id, format.Slot{}, nil
	return st.dropBase()
}

// setAsideDamaged renames a damaged file to PATH.damaged, so that a new one can take its place and the old one can be
// looked at. If another process has put a good file there since, it is loaded instead.
func (st *store) setAsideDamaged() error {
	err := st.load()
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return err
	}
	d, err := st.openDisk(st.path, true, st.insecure)
	if err != nil {
		return fmt.Errorf("open the damaged cache: %w", err)
	}
	defer func() { _ = d.Close() }()
	if ok, err := d.TryLock(); err != nil || !ok {
		return errors.Join(err, fmt.Errorf("%s: %w", st.path, errReplaced))
	}
	if replaced, err := d.Replaced(); err != nil || replaced {
		return errors.Join(err, fmt.Errorf("%s: %w", st.path, errReplaced))
	}
	if err := os.Rename(st.path, st.path+".damaged"); err != nil {
		return fmt.Errorf("set the damaged cache aside: %w", err)
	}
	return nil
}

// reserve returns n bytes of the file, mapped and with disk space behind them.
func (st *store) reserve(n uint64) (reservation, error) {
	start := alignUp(st.tail, packedAlignment)
	if st.segment == nil || start+n > st.segment.end() {
		if err := st.grow(start, n); err != nil {
			return reservation{}, err
		}
	}
	at := start - st.segment.offset
	st.tail = start + n
	st.segment.open++
	return reservation{region: st.segment.retain(), data: st.segment.data[at : at+n : at+n]}, nil
}

// grow maps a new segment that has room for n bytes at file offset start. It begins with the page that start lies in,
// mapped a second time, so that payloads are packed densely across segments.
func (st *store) grow(start, n uint64) error {
	granularity := uint64(mapGranularity())
	offset := start &^ (granularity - 1)
	need := alignUp(start+n-offset, granularity)
	st.growth = min(max(2*st.growth, firstSegment), lastSegment)
	size := max(need, st.growth)
	err := st.disk.Allocate(int64(offset), int64(size))
	if err != nil && size > need { // a nearly full disk may still have room for this one
		st.growth, size = 0, need
		err = st.disk.Allocate(int64(offset), int64(size))
	}
	if err != nil {
		return err
	}
	data, err := st.disk.Map(int64(offset), int(size), true)
	if err != nil {
		return err
	}
	if err := st.retire(); err != nil {
		_ = st.disk.Unmap(data)
		return err
	}
	st.segment = &region{data: data, offset: offset, unmap: st.disk.Unmap, refs: 1}
	st.writable = append(st.writable, st.segment.retain())
	return nil
}

// retire ends reserving from the current segment.
func (st *store) retire() error {
	if st.segment == nil {
		return nil
	}
	r := st.segment
	st.segment = nil
	return r.release()
}

// filled takes note that nothing will be written to a reservation any more.
func (st *store) filled(r reservation) { r.region.open-- }

// cancel gives up a reservation that nothing was packed into. Its reference is released too.
func (st *store) cancel(r reservation) error {
	st.filled(r)
	if start := r.offset(); st.segment == r.region && start+uint64(len(r.data)) == st.tail {
		st.tail = start
	}
	return r.region.release()
}

// A commit is a new generation on its way to the disk.
type commit struct {
	disk  disk
	id    [16]byte
	slot  format.Slot
	block []byte // index and trailer
}

// prepareCommit lays out a new generation with these records behind everything that is reserved. Space for it is
// allocated, and what was preallocated beyond it is given back, so that the trailer is the last of the file. What it covers
// becomes read-only in memory. The next reservation comes after it. Once it is written, it is to become the store's slot.
func (st *store) prepareCommit(layouts []format.Layout, records []format.Record, trailer []format.TrailerEntry, trailerVersion uint32) (*commit, error) {
	slot := format.Slot{
		Generation:  st.slot.Generation + 1,
		IndexOffset: alignUp(st.tail, packedAlignment),
		Records:     uint64(len(records)),
	}
	index, err := format.EncodeIndex(slot.Generation, layouts, records)
	if err != nil {
		return nil, err
	}
	slot.IndexSize, slot.IndexSum = uint64(len(index)), format.Sum(index)
	for i, r := range records { // sorted by EncodeIndex
		if i == 0 || r.Offset != records[i-1].Offset {
			slot.PayloadBytes += r.Size
		}
	}
	trailerAt := slot.IndexOffset + slot.IndexSize
	trailer = append([]format.TrailerEntry{
		{Name: format.HeaderEntry, Size: format.HeaderSize},
		{Name: format.IndexEntry, Offset: slot.IndexOffset, Size: slot.IndexSize},
	}, trailer...)
	block := append(index, format.EncodeTrailer(trailer, trailerAt, trailerVersion)...)
	slot.End = slot.IndexOffset + uint64(len(block))
	slot.DeadBytes = slot.End - format.HeaderSize - slot.PayloadBytes - uint64(len(block))

	if err := st.disk.Allocate(int64(slot.IndexOffset), int64(len(block))); err != nil {
		return nil, err
	}
	if err := st.disk.Truncate(int64(slot.End)); err != nil {
		return nil, fmt.Errorf("cache %s: %w", st.path, err)
	}
	st.tail, st.growth = slot.End, 0
	if err := errors.Join(st.retire(), st.seal()); err != nil {
		return nil, fmt.Errorf("cache %s: %w", st.path, err)
	}
	return &commit{disk: st.disk, id: st.id, slot: slot, block: block}, nil
}

// write brings the commit to the disk in the order that leaves the old or the new generation in force at every instant:
// payloads, index, slot, each flushed before the next. It may run while the store is used.
func (c *commit) write() error {
	if err := c.disk.Flush(); err != nil {
		return err
	}
	if _, err := c.disk.WriteAt(c.block, int64(c.slot.IndexOffset)); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := c.disk.Flush(); err != nil {
		return err
	}
	slot, at := c.slot.Encode(c.id)
	if _, err := c.disk.WriteAt(slot, at); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return c.disk.Flush()
}

// seal makes read-only what nothing will be packed into any more. It must come before the flush: see makeReadOnly.
func (st *store) seal() error {
	var errs []error
	still := st.writable[:0]
	for _, r := range st.writable {
		if r.open > 0 {
			still = append(still, r)
			continue
		}
		errs = append(errs, st.disk.Seal(r.data))
		r.sealed = true
		errs = append(errs, r.release())
	}
	clear(st.writable[len(still):])
	st.writable = still
	return errors.Join(errs...)
}

// end gives the writer's lock to others. The next writer gives what was reserved since the last commit back to the file
// system, so nothing of it may be in use any more.
func (st *store) end() error {
	if !st.locked {
		return nil
	}
	st.locked = false
	errs := []error{st.retire()}
	for _, r := range st.writable {
		errs = append(errs, r.release())
	}
	st.writable, st.growth = nil, 0
	return errors.Join(append(errs, st.disk.Unlock())...)
}

// close gives up the file. Regions that entries refer to stay mapped until those are released.
func (st *store) close() error {
	if st.disk == nil {
		return nil
	}
	err := errors.Join(st.end(), st.dropBase(), st.disk.Close())
	st.disk, st.index = nil, nil
	return err
}
