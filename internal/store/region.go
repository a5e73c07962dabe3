package store

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// A Region is a stretch of mapped memory, of the cache file or anonymous. It is unmapped when nothing refers to it. The
// region never moves: XNNPACK holds addresses in it.
type Region struct {
	data   []byte
	offset uint64   // in the file; 0 for anonymous memory
	file   [16]byte // identity of the file
	mapped Mapping  // of the file, or nil
	unmap  func() error
	used   uint64 // bytes from its start that were reserved, in whole pages; set when reserving ends

	refs   atomic.Int32 // entries and reservations in it, its owner, and its readers
	open   atomic.Int32 // reservations of it that may still be written to
	sealed bool         // read-only in memory
	lost   atomic.Bool  // a flush failed while something could be packed into it

	disk *openFile // what it was loaded from, or nil
}

// newRegion returns a region of the file with one reference to it.
func newRegion(m Mapping, offset uint64, id [16]byte) *Region {
	r := &Region{data: m.Data(), offset: offset, file: id, mapped: m, unmap: m.Unmap}
	return r.Retain()
}

// Data returns the region's memory.
func (r *Region) Data() []byte { return r.data }

// File returns the identity of the file that the region was mapped from, zero for anonymous memory.
func (r *Region) File() [16]byte { return r.file }

// Reader returns a reader of the file that the region was loaded from. It is valid as long as the caller holds a
// reference to the region, after the store is closed too. It is nil for reserved and anonymous regions.
func (r *Region) Reader() io.ReaderAt {
	if r.disk == nil {
		return nil
	}
	return r.disk
}

// Offset returns where in that file the region begins.
func (r *Region) Offset() uint64 { return r.offset }

// Sealed reports whether the region is read-only in memory.
func (r *Region) Sealed() bool { return r.sealed }

// Lost reports whether a flush failed while the region was being packed into. Its bytes on the disk are then unknown.
func (r *Region) Lost() bool { return r.lost.Load() }

// Retain adds a reference to the region, and returns it. The caller must hold a reference. It is safe for concurrent
// use.
func (r *Region) Retain() *Region { r.refs.Add(1); return r }

// Release drops a reference; the last one unmaps the region. It is safe for concurrent use.
func (r *Region) Release() error {
	if r.refs.Add(-1) > 0 {
		return nil
	}
	err := r.unmap()
	if r.disk != nil {
		err = errors.Join(err, r.disk.Close())
	}
	return err
}

// sync writes the payloads of the region to the disk.
func (r *Region) sync() error {
	if r.sealed {
		// Otherwise write-back clears dirty bits page by page, with a TLB shootdown each.
		r.mapped.GiveBack(0, len(r.data))
	}
	if err := r.mapped.Sync(0, int(r.used)); err != nil {
		return fmt.Errorf("sync %d bytes of payloads: %w", r.used, err)
	}
	return nil
}

// end returns the file offset after the region.
func (r *Region) end() uint64 { return r.offset + uint64(len(r.data)) }

// A Reservation is space to pack into, which holds a reference to its region.
type Reservation struct {
	Region *Region
	Data   []byte
	offset uint64 // in the file
}

// Offset returns where the reservation lies in the file.
func (r *Reservation) Offset() uint64 { return r.offset }
