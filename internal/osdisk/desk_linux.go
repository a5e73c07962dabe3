package osdisk

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DeskUnit is what the sizes of memory that a [Desk] is moved to are multiples of.
const DeskUnit = 512 << 10

// A Desk is memory that has one address after another: whoever must write much at many addresses, and needs it at one
// at a time, takes page faults for one of them. The zero value is ready. It is for one goroutine at a time.
type Desk struct {
	units [][]byte // where each is, in memory that the desk was moved to
}

// Move moves the desk to b: private memory, whose owner unmaps it as before and does not use its content. It
// reports whether the desk is there; else b is memory as before. What was written at other addresses is not there any
// more. After an error there may be no memory at b.
func (d *Desk) Move(b []byte) (moved bool, err error) {
	for i := range len(b) / DeskUnit {
		dst := b[i*DeskUnit:][:DeskUnit]
		if i == len(d.units) {
			d.units = append(d.units, dst)
			continue
		}
		src := d.units[i]
		if unsafe.SliceData(src) == unsafe.SliceData(dst) {
			continue
		}
		if moveMemory(src, dst) != nil { // before Linux 5.7, or short of memory or mappings
			d.Leave()
			return false, mapPrivate(dst)
		}
		d.units[i] = dst
	}
	return true, nil
}

// Leave has what is on the desk stay where it is. The desk has other memory from then on.
func (d *Desk) Leave() { d.units = nil }

// moveMemory has the pages of private memory at another address, and new ones of zeros where they were.
func moveMemory(src, dst []byte) error {
	_, err := unix.MremapPtr(unsafe.Pointer(unsafe.SliceData(src)), DeskUnit, unsafe.Pointer(unsafe.SliceData(dst)),
		DeskUnit, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP)
	return err
}

// mapPrivate maps new private memory at b if the system has unmapped what was there, and nothing else is by now.
func mapPrivate(b []byte) error {
	if err := unix.Msync(b, unix.MS_ASYNC); !errors.Is(err, unix.ENOMEM) { // what is mapped has nothing to be written
		return nil
	}
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED_NOREPLACE)
	return err
}
