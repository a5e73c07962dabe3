package osdisk

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Desk is memory that has one address after another: whoever must write much at many addresses, and needs it at one
// at a time, takes page faults for one of them. The zero value is ready. It is for one goroutine at a time.
type Desk struct {
	f    *os.File
	size int64
	at   []byte
}

// Move has the desk's memory at b, whole pages of private memory that are their owner's, who gives them back as before,
// and makes no use of what is in them. It reports whether it does; else b is as it was. There is then what was written
// at other addresses: those must not be used any more, until the desk is moved there or leaves them. After an error
// there may be no memory at b.
func (d *Desk) Move(b []byte) (moved bool, err error) {
	if d.reserve(int64(len(b))) != nil {
		return false, nil
	}
	giveBack(d.at) // else the system counts it as memory of this process at each address
	d.at = nil
	if err := mapAt(b, int(d.f.Fd()), unix.MAP_SHARED); err != nil {
		return false, d.Leave(b) // the system may have unmapped b by then
	}
	d.at = b
	_ = Supply(b) // no more than a hint
	return true, nil
}

// Leave gives b, where the desk has been, private memory of its own again, of zeros. After an error there may be none.
func (d *Desk) Leave(b []byte) error {
	if unsafe.SliceData(b) == unsafe.SliceData(d.at) {
		d.at = nil
	}
	return mapAt(b, -1, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// reserve has the desk's memory be there, so that a system that has none left says so here, and not by a signal later.
func (d *Desk) reserve(size int64) error {
	if size <= d.size {
		return nil
	}
	if err := withinFileSizeLimit(size); err != nil {
		return err
	}
	if d.f == nil {
		fd, err := unix.MemfdCreate("xpwc-desk", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		d.f = os.NewFile(uintptr(fd), "xpwc-desk")
	}
	if err := preallocate(d.f, d.size, size-d.size); err != nil {
		return err
	}
	d.size = size
	return nil
}

// mapAt maps the beginning of a file, or private memory, in place of b.
func mapAt(b []byte, fd, flags int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)),
		unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED)
	return err
}

// Close gives the desk up: its memory stays where it is until that is unmapped.
func (d *Desk) Close() error {
	if d.f == nil {
		return nil
	}
	f := d.f
	*d = Desk{}
	return f.Close()
}
