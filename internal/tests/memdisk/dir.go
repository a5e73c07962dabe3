// Package memdisk is a disk in memory, for tests of power failures, failed flushes and killed processes. Several
// processes can have its files open, locked and mapped, and unflushed bytes may be lost. It promises no more than POSIX
// and Windows do: a flush of a file omits pages that were written through mappings.
package memdisk

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
)

// A Dir is a directory that several processes can have open. It records what would have to reach a disk: Replay gives
// what a power failure at any moment leaves of it.
type Dir struct {
	mu      sync.Mutex
	names   map[string]*inode
	inodes  []*inode
	initial map[string]*inode // the names when recording began, all on the disk
	record  bool
	steps   []step
	misuse  error // what would have ended a real process with a signal

	// Granularity is what the offset of a mapping must be a multiple of. It is the system's page if it is not set.
	Granularity uint64
}

// An inode is a file's content. Mappings are slices of its memory, so they are shared with each other and with the
// file.
type inode struct {
	number   int
	memory   []byte // of fixed size, except that of an image
	size     int64
	largest  int64 // that size has been: beyond it, memory is zeros
	locked   *Disk
	writable []*mapping // that may be written to

	// While recording:
	initial     []byte // what is on the disk when recording begins
	initialSize int64
	recorded    []byte         // content after the steps: memory differs where mappings were written to since
	durable     []byte         // as it was flushed last
	dirty       map[int64]dirt // pages written to since
	forgotten   map[int64]bool // pages that a flush failed to write, and that are in memory only, clean
}

// A dirt tells how a dirty page was written to.
type dirt uint8

const (
	throughMapping dirt = 1 << iota
	withWriteAt
)

// A mapping is a stretch of a file that a process has in memory.
type mapping struct {
	disk   *Disk
	offset int64
	bytes  []byte
	sealed bool
}

// A step is one call that changes what is or may be on the disk, or what was written through mappings before it.
type step struct {
	call    string
	inode   *inode
	patches []patch
	size    int64 // of the file afterwards
	flush   flush
	pages   map[int64]bool // of the flush
	lost    []int64        // pages that a flush failed to write

	names   []nameChange // all of them or none
	syncDir bool
}

// A flush is the kind of a step that brings pages to the disk.
type flush uint8

const (
	noFlush    flush = iota
	fileFlush        // of the size and all pages except step.pages
	regionSync       // of step.pages
)

type patch struct {
	offset int64
	bytes  []byte
}

type nameChange struct {
	name  string
	inode *inode // nil: removed
}

// inodeMemory is memory for inodes, zeroed, with room for a small file and the first segment preallocated after it. To
// get it from the system anew for each of thousands of images would take most of the time.
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

// New returns an empty directory. Free gives its memory back.
func New() *Dir {
	return &Dir{names: map[string]*inode{}, Granularity: uint64(os.Getpagesize())}
}

// Process returns what a process sees of the directory.
func (d *Dir) Process() *Process { return &Process{dir: d} }

// Copy returns a directory with the same files, on the disk, that are open nowhere.
func (d *Dir) Copy() *Dir {
	c := &Dir{names: map[string]*inode{}, Granularity: d.Granularity}
	for name, i := range d.names {
		c.Put(name, i.memory, i.size)
	}
	return c
}

// Names returns the sorted names of the files.
func (d *Dir) Names() []string { return slices.Sorted(maps.Keys(d.names)) }

// Content returns the bytes of a file, which are the file's own; nil if there is none.
func (d *Dir) Content(name string) []byte {
	i := d.names[name]
	if i == nil {
		return nil
	}
	return i.memory[:min(i.size, int64(len(i.memory)))]
}

// Size returns the size of a file. That of an image may be more than the length of its content: what follows is zeros.
func (d *Dir) Size(name string) int64 {
	if i := d.names[name]; i != nil {
		return i.size
	}
	return 0
}

// Free gives the memory back. No process may have anything open.
func (d *Dir) Free() {
	for _, i := range d.inodes {
		for _, b := range [][]byte{i.memory, i.recorded, i.durable} {
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
func (d *Dir) add() *inode {
	i := &inode{number: len(d.inodes), memory: newInodeMemory()}
	if d.record {
		i.startRecording()
	}
	d.inodes = append(d.inodes, i)
	return i
}

// Put adds a file to the directory, before recording begins. Zeros follow content up to size.
func (d *Dir) Put(name string, content []byte, size int64) {
	i := d.add()
	i.resize(size)
	copy(i.memory, content)
	d.names[name] = i
}

// HasContent reports whether a file has this content, of which the zeros at its end may be a hole.
func (d *Dir) HasContent(name string, content []byte) bool {
	const zeros = "\x00"
	return d.Size(name) == int64(len(content)) &&
		bytes.Equal(bytes.TrimRight(d.Content(name), zeros), bytes.TrimRight(content, zeros))
}

// Record begins to record. All there is counts as on the disk.
func (d *Dir) Record() {
	d.record, d.initial = true, maps.Clone(d.names)
	for _, i := range d.inodes {
		// What was preallocated is left out, but what a file has may end with zeros, and is mapped.
		used := alignedSize(int64(len(bytes.TrimRight(i.memory[:i.size], "\x00")))) + 64<<10
		i.initial, i.initialSize = bytes.Clone(i.memory[:min(used, i.size)]), i.size
		i.startRecording()
	}
}

func (i *inode) startRecording() {
	i.recorded, i.durable, i.dirty, i.forgotten = newInodeMemory(), newInodeMemory(), map[int64]dirt{}, map[int64]bool{}
	copy(i.recorded, i.initial)
	copy(i.durable, i.initial)
}

const sector = 512

// notice records what was written through mappings since the last call.
func (d *Dir) notice() {
	if !d.record {
		return
	}
	for _, i := range d.inodes {
		var patches []patch
		for _, m := range i.writable {
			if m.sealed {
				continue
			}
			for offset := m.offset; offset < m.offset+int64(len(m.bytes)); offset += pageUnit {
				page := m.bytes[offset-m.offset:][:pageUnit]
				if bytes.Equal(page, i.recorded[offset:offset+pageUnit]) {
					continue
				}
				patches = append(patches, i.touched(offset, throughMapping)...)
				for s := offset; s < offset+pageUnit; s += sector {
					if content := page[s-offset:][:sector]; !bytes.Equal(content, i.recorded[s:s+sector]) {
						patches = append(patches, patch{s, bytes.Clone(content)})
						copy(i.recorded[s:], content)
						if s+sector > alignedSize(i.size) {
							d.misuse = fmt.Errorf("a mapping was written to at %d, after the file's end at %d",
								s, i.size)
						}
					}
				}
				copy(i.memory[offset:], page)
			}
		}
		if patches != nil {
			d.steps = append(d.steps, step{call: "writing through mappings", inode: i, patches: patches, size: i.size})
		}
	}
}

// touched marks the page at an offset as dirty. If a flush has forgotten the page, all of it is dirty again.
func (i *inode) touched(offset int64, kind dirt) []patch {
	page := offset &^ (pageUnit - 1)
	if i.dirty == nil {
		return nil
	}
	i.dirty[page] |= kind
	if !i.forgotten[page] {
		return nil
	}
	delete(i.forgotten, page)
	return []patch{{page, bytes.Clone(i.memory[page : page+pageUnit])}}
}

// A FlushFailure describes the state after a failed flush. Linux marks the pages that it could not write as clean.
type FlushFailure struct {
	Lost      Subset // of the dirty pages
	Reclaimed bool   // lost pages were read again from the disk since
	Random    *rand.Rand
}

func (f FlushFailure) String() string {
	return fmt.Sprintf("of the dirty pages lost: %v, reclaimed: %v", f.Lost, f.Reclaimed)
}

// Fail loses pages of all files as a flush that fails does. It is for Process.Fails.
func (d *Dir) Fail(f FlushFailure) {
	for _, i := range d.inodes {
		i.fail(f)
	}
}

// Unlocked calls do without the directory's lock. It is for use in Process.Fails, which is called with the lock held.
func (d *Dir) Unlocked(do func()) {
	d.mu.Unlock()
	defer d.mu.Lock()
	do()
}

// Steps returns how many steps were recorded: changes of files and names, and flushes.
func (d *Dir) Steps() int { return len(d.steps) }

// fail makes a flush fail. It returns the lost pages.
func (i *inode) fail(f FlushFailure) (lost []int64) {
	pages := slices.Sorted(maps.Keys(i.dirty))
	special := 0
	if len(pages) > 0 {
		special = f.Random.IntN(len(pages))
	}
	for n, page := range pages {
		switch {
		case f.Lost == LeaveAll, f.Lost == LeaveSome && f.Random.IntN(2) == 0, f.Lost == LeaveOne && n == special:
		default:
			continue
		}
		lost = append(lost, page)
		delete(i.dirty, page)
		if !f.Reclaimed {
			i.forgotten[page] = true
			continue
		}
		for _, b := range [][]byte{i.memory, i.recorded} {
			copy(b[page:page+pageUnit], i.durable[page:])
		}
	}
	return lost
}

// flush writes all dirty pages to the disk except pages that were written through mappings only, which it returns.
func (i *inode) flush() (omitted map[int64]bool) {
	omitted = map[int64]bool{}
	for page, d := range i.dirty {
		if d == throughMapping {
			omitted[page] = true
			continue
		}
		i.write(page)
	}
	return omitted
}

// sync brings the dirty pages of [start, end) to the disk and returns them.
func (i *inode) sync(start, end int64) (pages map[int64]bool) {
	pages = map[int64]bool{}
	for page := range i.dirty {
		if page >= start && page < end {
			pages[page] = true
			i.write(page)
		}
	}
	return pages
}

func (i *inode) write(page int64) {
	copy(i.durable[page:], i.memory[page:page+pageUnit])
	delete(i.dirty, page)
}

// alignedSize returns the end of the file's last page.
func alignedSize(size int64) int64 { return (size + pageUnit - 1) &^ (pageUnit - 1) }

func (d *Dir) note(s step) {
	if d.record {
		d.steps = append(d.steps, s)
	}
}

// resize changes a file's size. What is cut off reads as zeros should the file grow again.
func (i *inode) resize(size int64) {
	if size < i.size {
		clear(i.memory[size:i.size])
		if i.recorded != nil {
			clear(i.recorded[size:i.size])
		}
		maps.DeleteFunc(i.dirty, func(page int64, _ dirt) bool { return page >= size })
	}
	i.size, i.largest = size, max(size, i.largest)
}
