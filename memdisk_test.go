package xpwc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"xpwc/internal/digest"
	"xpwc/internal/store"
)

// A memDir is a directory in memory that several processes can have open. It records what would have to reach a disk:
// power_test.go replays that up to any moment.
type memDir struct {
	mu      sync.Mutex
	names   map[string]*inode
	inodes  []*inode
	initial map[string]*inode // the names when recording began, all on the disk
	record  bool
	steps   []step
	misuse  error // what would have ended a real process with a signal

	granularity uint64 // of mappings
}

// An inode is a file's content. Mappings are slices of its memory, so they are shared with each other and with the file.
type inode struct {
	number   int
	memory   []byte // of fixed size, but for an image that is only looked at
	size     int64
	largest  int64 // that size has been: beyond it, memory is zeros
	locked   *memDisk
	writable []mapping // that may be written to
	former   [][]byte  // memory that detached mappings kept

	// While recording:
	initial     []byte // what is on the disk when recording begins
	initialSize int64
	seen        []byte         // what the steps amount to: memory differs where it was written to through mappings since
	durable     []byte         // as it was flushed last
	dirty       map[int64]bool // pages written to since
	forgotten   map[int64]bool // pages that a flush failed to write, and that are in memory only, clean
}

// A mapping is a stretch of a file that a process has in memory.
type mapping struct {
	offset int64
	bytes  []byte
}

// offsetOf returns where in the file a part of a mapping lies.
func (i *inode) offsetOf(b []byte) int64 {
	for _, m := range append([][]byte{i.memory}, i.former...) {
		if at := addressOf(b) - addressOf(m); at < uintptr(len(m)) {
			return int64(at)
		}
	}
	panic("no mapping of this file")
}

// A step is one call that changes what is or may be on the disk, or what was written through mappings before it.
type step struct {
	call    string
	inode   *inode
	patches []patch
	size    int64 // of the file afterwards
	flush   bool
	lost    []int64 // pages that a flush failed to write

	names   []nameChange // all of them or none
	syncDir bool
}

type patch struct {
	offset int64
	bytes  []byte
}

type nameChange struct {
	name  string
	inode *inode // nil: removed
}

// inodeMemory is memory for inodes, zeroed, with room for a small file and the first segment preallocated behind it. To get
// it from the system anew for each of thousands of images would take most of the time.
var inodeMemory struct {
	sync.Mutex
	free [][]byte
}

func newInodeMemory() []byte {
	m := &inodeMemory
	m.Lock()
	defer m.Unlock()
	if len(m.free) == 0 {
		return make([]byte, 10<<20)
	}
	b := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return b
}

func newMemDir(t testing.TB) *memDir {
	d := &memDir{names: map[string]*inode{}, granularity: uint64(mapGranularity())}
	t.Cleanup(d.free)
	return d
}

// free gives the memory back. No process may have anything open.
func (d *memDir) free() {
	for _, i := range d.inodes {
		for _, b := range append([][]byte{i.memory, i.seen, i.durable}, i.former...) {
			if b != nil {
				clear(b[:alignedSize(i.largest)])
				inodeMemory.Lock()
				inodeMemory.free = append(inodeMemory.free, b)
				inodeMemory.Unlock()
			}
		}
	}
	d.inodes, d.names = nil, nil
}

// add makes an empty inode.
func (d *memDir) add() *inode {
	i := &inode{number: len(d.inodes), memory: newInodeMemory()}
	if d.record {
		i.startRecording()
	}
	d.inodes = append(d.inodes, i)
	return i
}

// put has a file in the directory, before anything is recorded.
func (d *memDir) put(name string, content []byte, size int64) {
	i := d.add()
	i.resize(size)
	copy(i.memory, content)
	d.names[name] = i
}

// startRecording takes all there is for being on the disk.
func (d *memDir) startRecording() {
	d.record, d.initial = true, maps.Clone(d.names)
	for _, i := range d.inodes {
		used := alignedSize(int64(len(bytes.TrimRight(i.memory[:i.size], "\x00"))))
		i.initial, i.initialSize = bytes.Clone(i.memory[:min(used, i.size)]), i.size
		i.startRecording()
	}
}

func (i *inode) startRecording() {
	i.seen, i.durable, i.dirty, i.forgotten = newInodeMemory(), newInodeMemory(), map[int64]bool{}, map[int64]bool{}
	copy(i.seen, i.initial)
	copy(i.durable, i.initial)
}

const sector = 512

// notice records what was written through mappings since the last call.
func (d *memDir) notice() {
	if !d.record {
		return
	}
	for _, i := range d.inodes {
		var patches []patch
		for _, m := range i.writable {
			for at := m.offset; at < m.offset+int64(len(m.bytes)); at += pageUnit {
				page := m.bytes[at-m.offset:][:pageUnit]
				if bytes.Equal(page, i.seen[at:at+pageUnit]) {
					continue
				}
				patches = append(patches, i.touched(at)...)
				for s := at; s < at+pageUnit; s += sector {
					if now := page[s-at:][:sector]; !bytes.Equal(now, i.seen[s:s+sector]) {
						patches = append(patches, patch{s, bytes.Clone(now)})
						copy(i.seen[s:], now)
						if s+sector > alignedSize(i.size) {
							d.misuse = fmt.Errorf("a mapping was written to at %d, behind the file's end at %d", s, i.size)
						}
					}
				}
				copy(i.memory[at:], page)
			}
		}
		if patches != nil {
			d.steps = append(d.steps, step{call: "writing through mappings", inode: i, patches: patches, size: i.size})
		}
	}
}

// touched takes note that a page is written to. If it was forgotten, all of it is dirty again.
func (i *inode) touched(at int64) []patch {
	page := at &^ (pageUnit - 1)
	if i.dirty == nil {
		return nil
	}
	i.dirty[page] = true
	if !i.forgotten[page] {
		return nil
	}
	delete(i.forgotten, page)
	return []patch{{page, bytes.Clone(i.memory[page : page+pageUnit])}}
}

// A flushFailure says what a flush that fails leaves. Linux marks the pages that it could not write as clean.
type flushFailure struct {
	lost      subset // of the dirty pages
	reclaimed bool   // those that are lost were read again from the disk since
	random    *rand.Rand
}

func (f flushFailure) String() string {
	return fmt.Sprintf("of the dirty pages lost: %v, reclaimed: %v", f.lost, f.reclaimed)
}

// fail has a flush fail. It returns the pages that are lost.
func (i *inode) fail(f flushFailure) (lost []int64) {
	pages := slices.Sorted(maps.Keys(i.dirty))
	special := 0
	if len(pages) > 0 {
		special = f.random.IntN(len(pages))
	}
	for n, page := range pages {
		switch {
		case f.lost == leaveAll, f.lost == leaveSome && f.random.IntN(2) == 0, f.lost == leaveOne && n == special:
		default:
			continue
		}
		lost = append(lost, page)
		delete(i.dirty, page)
		if !f.reclaimed {
			i.forgotten[page] = true
			continue
		}
		for _, b := range [][]byte{i.memory, i.seen} {
			copy(b[page:page+pageUnit], i.durable[page:])
		}
	}
	return lost
}

// flushed takes note that all dirty pages are on the disk.
func (i *inode) flushed() {
	for page := range i.dirty {
		copy(i.durable[page:], i.memory[page:page+pageUnit])
	}
	clear(i.dirty)
}

// alignedSize returns the end of the file's last page.
func alignedSize(size int64) int64 { return (size + pageUnit - 1) &^ (pageUnit - 1) }

func (d *memDir) note(s step) {
	if d.record {
		d.steps = append(d.steps, s)
	}
}

// resize changes a file's size. What is cut off reads as zeros should the file grow again.
func (i *inode) resize(size int64) {
	if size < i.size {
		clear(i.memory[size:i.size])
		if i.seen != nil {
			clear(i.seen[size:i.size])
		}
	}
	i.size, i.largest = size, max(size, i.largest)
}

// A memProcess is what one process sees of the directory. It can be killed, and can be made to forget a flush.
type memProcess struct {
	dir *memDir

	killAt       int    // the call at which it is killed, counted from 1; 0: none
	onCall       func() // called before each call
	cannotDetach bool   // as on other systems than Linux

	fails   func(path string) *flushFailure // how a flush fails, or nil
	forgets func(flush, after string) bool  // whether it does not do a flush, of a path or \"directory\", after that step
	calls   int
	dead    bool
	disks   []*memDisk
}

func (d *memDir) process() *memProcess { return &memProcess{dir: d} }

var errKilled = errors.New("the process was killed")

// enter begins a call that changes something. The caller unlocks the directory if there is no error.
func (p *memProcess) enter() error {
	if p.onCall != nil {
		p.onCall()
	}
	p.dir.mu.Lock()
	p.calls++
	if p.calls == p.killAt {
		p.dead = true
		for _, d := range p.disks {
			d.unlock()
		}
	}
	p.dir.notice()
	if p.dead {
		p.dir.mu.Unlock()
		return errKilled
	}
	return nil
}

// look begins a call that changes nothing.
func (p *memProcess) look() error {
	p.dir.mu.Lock()
	if p.dead {
		p.dir.mu.Unlock()
		return errKilled
	}
	return nil
}

// flushing reports whether a flush is to be done.
func (p *memProcess) flushing(what string) bool {
	steps := p.dir.steps
	return p.forgets == nil || len(steps) == 0 || !p.forgets(what, steps[len(steps)-1].call)
}

func (p *memProcess) opened(i *inode, path string) store.Disk {
	d := &memDisk{process: p, inode: i, path: path}
	p.disks = append(p.disks, d)
	return d
}

func (p *memProcess) Open(path string, _, _ bool) (store.Disk, error) {
	if err := p.look(); err != nil {
		return nil, err
	}
	defer p.dir.mu.Unlock()
	i := p.dir.names[path]
	if i == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return p.opened(i, path), nil
}

func (p *memProcess) Create(path string) (store.Disk, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.dir.mu.Unlock()
	if p.dir.names[path] != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	i := p.dir.add()
	p.dir.names[path] = i
	p.dir.note(step{call: "create " + path, names: []nameChange{{path, i}}})
	return p.opened(i, path), nil
}

func (p *memProcess) Rename(from, to string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.dir.mu.Unlock()
	i := p.dir.names[from]
	if i == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(p.dir.names, from)
	p.dir.names[to] = i
	p.dir.note(step{call: "rename " + from + " to " + to, names: []nameChange{{from, nil}, {to, i}}})
	return nil
}

func (p *memProcess) Remove(path string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.dir.mu.Unlock()
	if p.dir.names[path] != nil {
		delete(p.dir.names, path)
		p.dir.note(step{call: "remove " + path, names: []nameChange{{path, nil}}})
	}
	return nil
}

func (p *memProcess) CopyMode(string, string) error { return nil } // they have none

func (p *memProcess) SyncDir(string) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.dir.mu.Unlock()
	if p.flushing("directory") {
		p.dir.note(step{call: "flush the directory", syncDir: true})
	}
	return nil
}

// A memDisk is a file that a process has open.
type memDisk struct {
	process *memProcess
	inode   *inode
	path    string
}

func (d *memDisk) ReadAt(b []byte, offset int64) (int, error) {
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

func (d *memDisk) WriteAt(b []byte, offset int64) (int, error) {
	i, err := d.change(offset + int64(len(b)))
	if err != nil {
		return 0, err
	}
	defer d.process.dir.mu.Unlock()
	var patches []patch
	for at := offset; at < offset+int64(len(b)); at = (at + pageUnit) &^ (pageUnit - 1) {
		patches = append(patches, i.touched(at)...)
	}
	copy(i.memory[offset:], b)
	if i.seen != nil {
		copy(i.seen[offset:], b)
	}
	i.resize(max(i.size, offset+int64(len(b))))
	d.process.dir.note(step{
		call:  fmt.Sprintf("write %d bytes of %s at %d", len(b), d.path, offset),
		inode: i, patches: append(patches, patch{offset, bytes.Clone(b)}), size: i.size,
	})
	return len(b), nil
}

// change begins a call that needs the file's memory up to an end.
func (d *memDisk) change(end int64) (*inode, error) {
	if err := d.process.enter(); err != nil {
		return nil, err
	}
	if end > int64(len(d.inode.memory)) {
		d.process.dir.mu.Unlock()
		return nil, &fs.PathError{Op: "write", Path: d.path, Err: syscall.ENOSPC}
	}
	return d.inode, nil
}

func (d *memDisk) Size() (int64, error) {
	if err := d.process.look(); err != nil {
		return 0, err
	}
	defer d.process.dir.mu.Unlock()
	return d.inode.size, nil
}

func (d *memDisk) Allocate(offset, size int64) error {
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

func (d *memDisk) Truncate(size int64) error {
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

func (d *memDisk) Populate([]byte) error { return nil }

func (d *memDisk) Sum(b []byte) (digest.Digest, error) { return digest.Of(b), nil }

func (d *memDisk) Granularity() uint64 { return d.process.dir.granularity }

func (d *memDisk) Map(offset int64, size int, writable bool) ([]byte, error) {
	if err := d.process.look(); err != nil {
		return nil, err
	}
	defer d.process.dir.mu.Unlock()
	end := offset + int64(size)
	if end > int64(len(d.inode.memory)) || end > alignedSize(d.inode.size) || uint64(offset)%d.Granularity() != 0 {
		return nil, &fs.PathError{Op: "map", Path: d.path, Err: syscall.EINVAL}
	}
	b := d.inode.memory[offset:end:end]
	if writable {
		d.inode.writable = append(d.inode.writable, mapping{offset, b})
	}
	return b, nil
}

// Seal ends writing through a mapping. A real one faults then; here it shows as bytes that no image has.
func (d *memDisk) Seal(b []byte) error {
	if err := d.process.enter(); err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	if uint64(d.inode.offsetOf(b))%d.Granularity() != 0 {
		return &fs.PathError{Op: "seal", Path: d.path, Err: syscall.EINVAL}
	}
	d.forgetMapping(b)
	return nil
}

// Detach leaves the memory to the mapping, and gives the file other memory. Other mappings of it, which nobody writes to, keep
// the old one too.
func (d *memDisk) Detach(b []byte) error {
	if d.process.cannotDetach {
		return errors.ErrUnsupported
	}
	if err := d.process.enter(); err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	i := d.inode
	i.former = append(i.former, i.memory)
	i.memory = newInodeMemory()
	copy(i.memory, i.former[len(i.former)-1])
	i.writable = slices.DeleteFunc(i.writable, func(m mapping) bool { return addressOf(m.bytes) == addressOf(b) })
	return nil
}

func (d *memDisk) Unmap(b []byte) error {
	d.process.dir.mu.Lock()
	defer d.process.dir.mu.Unlock()
	d.process.dir.notice()
	d.forgetMapping(b)
	return nil
}

// forgetMapping forgets one mapping: there may be others of the same stretch.
func (d *memDisk) forgetMapping(b []byte) {
	same := func(m mapping) bool { return addressOf(m.bytes) == addressOf(b) && len(m.bytes) == len(b) }
	if i := slices.IndexFunc(d.inode.writable, same); i >= 0 {
		d.inode.writable = slices.Delete(d.inode.writable, i, i+1)
	}
}

func (d *memDisk) Flush() error {
	if err := d.process.enter(); err != nil {
		return err
	}
	defer d.process.dir.mu.Unlock()
	if d.process.fails != nil {
		if f := d.process.fails(d.path); f != nil {
			lost := d.inode.fail(*f)
			d.process.dir.note(step{call: "fail to flush " + d.path, inode: d.inode, size: d.inode.size, lost: lost})
			return &fs.PathError{Op: "flush", Path: d.path, Err: syscall.EIO}
		}
	}
	if d.process.flushing(d.path) {
		d.inode.flushed()
		d.process.dir.note(step{call: "flush " + d.path, inode: d.inode, size: d.inode.size, flush: true})
	}
	return nil
}

func (d *memDisk) TryLock() (bool, error) {
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

func (d *memDisk) Unlock() error {
	d.process.dir.mu.Lock()
	defer d.process.dir.mu.Unlock()
	d.unlock()
	return nil
}

func (d *memDisk) unlock() {
	if d.inode.locked == d {
		d.inode.locked = nil
	}
}

func (d *memDisk) Replaced() (bool, error) {
	if err := d.process.look(); err != nil {
		return false, err
	}
	defer d.process.dir.mu.Unlock()
	return d.process.dir.names[d.path] != d.inode, nil
}

func (d *memDisk) CopiesUp() bool { return false }

func (d *memDisk) Moved(path string) { d.path = path }

func (d *memDisk) Reader() (store.Reader, error) { return nil, errors.ErrUnsupported } // see openOn

func (d *memDisk) Close() error { return d.Unlock() }
