package osdisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"

	"xpwc/internal/fd"
	"xpwc/internal/store"
)

// ErrReadOnlyFileSystem makes a cache read-only, as a lack of permission does.
const ErrReadOnlyFileSystem = windows.ERROR_WRITE_PROTECT

// openFile opens an existing file. A final symbolic link or junction is opened itself unless insecure is set: it is no
// regular file.
func openFile(path string, writable, insecure bool) (*os.File, error) {
	access, flags := uint32(windows.GENERIC_READ), uint32(windows.FILE_ATTRIBUTE_NORMAL)
	if writable {
		access |= windows.GENERIC_WRITE
	}
	if !insecure {
		flags |= windows.FILE_FLAG_OPEN_REPARSE_POINT
	}
	return fd.OpenHandle(path, access, nil, windows.OPEN_EXISTING, flags)
}

func createFile(path string) (*os.File, error) {
	private, err := ownerOnly()
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	f, err := fd.OpenHandle(path, windows.GENERIC_READ|windows.GENERIC_WRITE, private, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_NORMAL)
	if err != nil {
		return nil, err
	}
	// In a compressed directory the file would be compressed, and its space not reserved: see preallocate.
	format, returned := make([]byte, 2), uint32(0) // COMPRESSION_FORMAT_NONE
	_ = windows.DeviceIoControl(windows.Handle(f.Fd()), windows.FSCTL_SET_COMPRESSION,
		&format[0], 2, nil, 0, &returned, nil)
	return f, nil
}

// preallocate gives the file disk space for [offset, offset+size), extending it where needed, so that no later write
// into a mapping of it can find the disk full.
func preallocate(f *os.File, offset, size int64) error {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return err
	}
	if info.FileAttributes&(windows.FILE_ATTRIBUTE_SPARSE_FILE|windows.FILE_ATTRIBUTE_COMPRESSED) != 0 {
		return errors.New("a sparse or compressed file has no space of its own")
	}
	oldSize := int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow)
	return writeZeros(f, oldSize, max(0, offset+size-oldSize)) // what lies before the file's end has space already
}

// Replaced uses no [os.SameFile], which would open the file without letting others use it meanwhile.
func (d *Disk) Replaced() (bool, error) {
	mine, err := fileID(windows.Handle(d.Fd()))
	if err != nil {
		return false, err
	}
	named, err := fd.OpenHandle(d.path, windows.FILE_READ_ATTRIBUTES, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	theirs, err := fileID(windows.Handle(named.Fd()))
	return theirs != mine, errors.Join(err, named.Close())
}

// fileID distinguishes a file from any other of the machine.
func fileID(h windows.Handle) (id [24]byte, err error) {
	if windows.GetFileInformationByHandleEx(h, windows.FileIdInfo, &id[0], uint32(len(id))) == nil {
		return id, nil
	}
	var info windows.ByHandleFileInformation // file systems that have no long identities, and Wine
	err = windows.GetFileInformationByHandle(h, &info)
	for i, part := range []uint32{info.VolumeSerialNumber, info.FileIndexHigh, info.FileIndexLow} {
		binary.LittleEndian.PutUint32(id[4*i:], part)
	}
	return id, err
}

func (d *Disk) Truncate(size int64) error {
	err := d.File.Truncate(size)
	if errors.Is(err, windows.ERROR_USER_MAPPED_FILE) {
		return fmt.Errorf("%w: %w", store.ErrMapped, err)
	}
	return err
}

func remove(path string) error { return os.Remove(path) }

// flushDir returns when the names in a path's directory are on the disk. NTFS, which keeps a journal, flushes a
// directory if asked to; other file systems have no such call, and what they do with names is their own.
func flushDir(path string) error {
	f, err := fd.OpenHandle(filepath.Dir(path), windows.GENERIC_READ|windows.GENERIC_WRITE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS)
	if err != nil {
		return nil
	}
	_ = f.Sync()
	return f.Close()
}

// withinFileSizeLimit: there is no such limit on Windows.
func withinFileSizeLimit(int64) error { return nil }

// lockAt is a byte far beyond any file's end: on Windows a lock is mandatory and must not keep readers from the
// content.
var lockAt = windows.Overlapped{Offset: 0, OffsetHigh: 1 << 30}

func (d *Disk) TryLock() (bool, error) {
	overlapped := lockAt
	const exclusiveNow = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(d.Fd()), exclusiveNow, 0, 1, 0, &overlapped)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	default:
		return false, fmt.Errorf("lock %s: %w", d.path, err)
	}
}

func (d *Disk) Unlock() error {
	overlapped := lockAt
	return windows.UnlockFileEx(windows.Handle(d.Fd()), 0, 1, 0, &overlapped)
}

// ownerOnly lets nobody but this user, the system and administrators read or write a new file, whatever its directory
// passes on.
func ownerOnly() (*windows.SecurityAttributes, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("find out who owns the process: %w", err)
	}
	descriptor, err := windows.SecurityDescriptorFromString(fmt.Sprintf("D:P(A;;FA;;;%s)(A;;FA;;;SY)(A;;FA;;;BA)",
		user.User.Sid))
	if err != nil {
		return nil, fmt.Errorf("make an access list: %w", err)
	}
	attributes := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	return attributes, nil
}
