package memdisk

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"

	"xpwc/internal/digest"
	"xpwc/internal/store"
)

// A Disk is a file that a process has open.
type Disk struct {
	process *Process
	inode   *inode
	path    string
}

func (d *Disk) ReadAt(b []byte, offset int64) (int, error) {
	if err := d.process.look(); err != nil {
		return 0, err
	}
	defer d.process.dir.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if offset >= d.inode.size {
		return 0, io.EOF
	}
	available := min(int64(len(b)), d.inode.size-offset)
	clear(b[:available]) // an image has no memory for zeros at its end
	if offset < int64(len(d.inode.memory)) {
		copy(b[:available], d.inode.memory[offset:])
	}
	if available < int64(len(b)) {
		return int(available), io.EOF
	}
	return len(b), nil
}

func (d *Disk) WriteAt(b []byte, offset int64) (int, error) {
	i, err := d.change(offset + int64(len(b)))
	if err != nil {
		return 0, err
	}
	defer d.process.dir.mu.Unlock()
	var patches []patch
	for pos := offset; pos < offset+int64(len(b)); pos = (pos + pageUnit) &^ (pageUnit - 1) {
		patches = append(patches, i.touched(pos, withWriteAt)...)
	}
	copy(i.memory[offset:], b)
	if i.recorded != nil {
		copy(i.recorded[offset:], b)
	}
	i.resize(max(i.size, offset+int64(len(b))))
	d.process.dir.note(step{
		call:  fmt.Sprintf("write %d bytes of %s at %d", len(b), d.path, offset),
		inode: i, patches: append(patches, patch{offset, bytes.Clone(b)}), size: i.size,
	})
	return len(b), nil
}

// change begins a call that needs the file's memory up to an end.
func (d *Disk) change(end int64) (*inode, error) {
	if err := d.process.enter(); err != nil {
		return nil, err
	}
	if end > int64(len(d.inode.memory)) {
		d.process.dir.mu.Unlock()
		return nil, &fs.PathError{Op: "write", Path: d.path, Err: syscall.ENOSPC}
	}
	return d.inode, nil
}

func (d *Disk) Size() (int64, error) {
	if err := d.process.look(); err != nil {
		return 0, err
	}
	defer d.process.dir.mu.Unlock()
	return d.inode.size, nil
}

func (d *Disk) Allocate(offset, size int64) error {
	i, err := d.change(offset + size)
	if err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	if offset+size > i.size {
		i.resize(offset + size)
		d.process.dir.note(step{call: fmt.Sprintf("allocate %s up to %d", d.path, i.size), inode: i, size: i.size})
	}
	return nil
}

// Supply makes a part zeros, as Linux' disk does. Mostly it has zeros, and no image of the disk changes.
func (d *Disk) Supply(offset, size int64) error {
	zeros, content := make([]byte, size), make([]byte, size)
	if _, err := d.ReadAt(content, offset); err != nil || bytes.Equal(content, zeros) {
		return err
	}
	_, err := d.WriteAt(zeros, offset)
	return err
}

func (d *Disk) Truncate(size int64) error {
	i, err := d.change(size)
	if err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	if size != i.size {
		i.resize(size)
		d.process.dir.note(step{call: fmt.Sprintf("truncate %s to %d", d.path, size), inode: i, size: size})
	}
	return nil
}

func (d *Disk) Sum(b []byte) (digest.Digest, error) { return digest.Of(b), nil }

func (d *Disk) Mode() (fs.FileMode, error) { return 0, nil } // they have none
func (d *Disk) SetMode(fs.FileMode) error  { return nil }

func (d *Disk) Granularity() uint64 { return d.process.dir.Granularity }

func (d *Disk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	if err := d.process.look(); err != nil {
		return nil, err
	}
	defer d.process.dir.mu.Unlock()
	end := offset + int64(size)
	if end > int64(len(d.inode.memory)) || end > alignedSize(d.inode.size) || uint64(offset)%d.Granularity() != 0 {
		return nil, &fs.PathError{Op: "map", Path: d.path, Err: syscall.EINVAL}
	}
	m := &mapping{disk: d, offset: offset, bytes: d.inode.memory[offset:end:end]}
	if writable {
		d.inode.writable = append(d.inode.writable, m)
	}
	return m, nil
}

func (m *mapping) Data() []byte { return m.bytes }

// A mapping is the page cache's memory itself.

func (*mapping) Populate(_, _ int) error { return nil }
func (*mapping) GiveBack(_, _ int)       {}

// Seal ends writing through a mapping. A real one faults then; here it shows as bytes that no image has.
func (m *mapping) Seal(start int) error {
	d := m.disk
	if err := d.process.enter(); err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	if uint64(m.offset+int64(start))%d.Granularity() != 0 {
		return &fs.PathError{Op: "seal", Path: d.path, Err: syscall.EINVAL}
	}
	m.sealed = m.sealed || start == 0
	return nil
}

func (m *mapping) Unmap() error {
	d := m.disk
	d.process.dir.mu.Lock()
	defer d.process.dir.mu.Unlock()
	d.process.dir.notice()
	d.inode.writable = slices.DeleteFunc(d.inode.writable, func(w *mapping) bool { return w == m })
	return nil
}

func (d *Disk) Flush() error {
	if err := d.beginFlush(); err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	i := d.inode
	if d.process.flushing(d.path) && i.dirty != nil {
		d.process.dir.note(step{call: "flush " + d.path, inode: i, size: i.size, flush: fileFlush, pages: i.flush()})
	}
	return nil
}

func (m *mapping) Sync(start, end int) error {
	d, i := m.disk, m.disk.inode
	if err := d.beginFlush(); err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	if uint64(m.offset+int64(start))%d.Granularity() != 0 {
		return &fs.PathError{Op: "sync", Path: d.path, Err: syscall.EINVAL}
	}
	if d.process.flushing(Payloads(d.path)) {
		pages := i.sync(m.offset+int64(start), m.offset+int64(end))
		d.process.dir.note(step{
			call: "sync " + Payloads(d.path), inode: i, size: i.size, flush: regionSync, pages: pages,
		})
	}
	return nil
}

// Payloads names the mappings of a file for Process.Forgets.
func Payloads(path string) string { return "mappings of " + path }

// beginFlush begins a flush of the file or of a mapping, which fails as Process.Fails wants. The caller unlocks the
// directory if there is no error.
func (d *Disk) beginFlush() error {
	if err := d.process.enter(); err != nil || d.process.Fails == nil {
		return err
	}
	f := d.process.Fails(d.path)
	if f == nil {
		return nil
	}
	defer d.process.dir.mu.Unlock()
	lost := d.inode.fail(*f)
	d.process.dir.note(step{call: "fail to flush " + d.path, inode: d.inode, size: d.inode.size, lost: lost})
	return &fs.PathError{Op: "flush", Path: d.path, Err: syscall.EIO}
}

func (d *Disk) TryLock() (bool, error) {
	if err := d.process.look(); err != nil {
		return false, err
	}
	defer d.process.dir.mu.Unlock()
	if d.inode.locked != nil && d.inode.locked != d {
		return false, nil
	}
	d.inode.locked = d
	return true, nil
}

func (d *Disk) Unlock() error {
	d.process.dir.mu.Lock()
	defer d.process.dir.mu.Unlock()
	d.unlock()
	return nil
}

func (d *Disk) unlock() {
	if d.inode.locked == d {
		d.inode.locked = nil
	}
}

func (d *Disk) Replaced() (bool, error) {
	if err := d.process.look(); err != nil {
		return false, err
	}
	defer d.process.dir.mu.Unlock()
	return d.process.dir.names[d.path] != d.inode, nil
}

func (d *Disk) CopiesUp() bool { return false }

func (d *Disk) Close() error { return d.Unlock() }
