package osdisk

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// WindowUnit divides the sizes of memory that a [Window] moves to. Smaller ones take more calls, and each of these
// interrupts the other processors that run the process. Larger ones take more addresses.
const WindowUnit = 1 << 20

// A Window is memory whose pages move from address to address, for content that is needed at one of many addresses at a
// time: only the first address takes page faults. The zero value is ready. It is for one goroutine at a time.
type Window struct {
	units [][]byte // the current address of each unit
}

// Move moves the window's pages to b, private memory whose content is not needed. It reports whether it did; otherwise
// b is as before. The content at the previous address is lost. After an error there may be no memory at b.
func (d *Window) Move(b []byte) (moved bool, err error) {
	for i := range len(b) / WindowUnit {
		dst := b[i*WindowUnit:][:WindowUnit]
		if i == len(d.units) {
			d.units = append(d.units, dst)
			continue
		}
		src := d.units[i]
		if unsafe.SliceData(src) == unsafe.SliceData(dst) {
			continue
		}
		if moveMemory(src, dst) != nil { // before Linux 5.7, or short of memory or mappings
			d.Detach()
			return false, mapPrivate(dst)
		}
		d.units[i] = dst
	}
	return true, nil
}

// Detach leaves the pages where they are. The next Move takes new ones.
func (d *Window) Detach() { d.units = nil }

// moveMemory moves the pages of private memory to another address. New pages of zeros take their place.
func moveMemory(src, dst []byte) error {
	_, err := unix.MremapPtr(unsafe.Pointer(unsafe.SliceData(src)), WindowUnit, unsafe.Pointer(unsafe.SliceData(dst)),
		WindowUnit, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP)
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
