// Package mappings finds the processes that have a file mapped, and how much memory their mappings take. Linux shows
// that in /proc (proc_pid_smaps(5)); elsewhere it is errors.ErrUnsupported.
package mappings

import "io/fs"

// A Survey is what was found about a path.
type Survey struct {
	// Path is where the path that was given leads, absolute and without links.
	Path string
	// Info of the file that is at the path now; nil if none is there.
	Info fs.FileInfo
	// Users are the processes that have a file of this path mapped, in the order of their numbers; not this process.
	// A process that has several files of it is there once for each.
	Users []User
	// Hidden counts the processes that this one may not look into. Processes of another PID namespace than that of
	// /proc are not known at all.
	Hidden int
}

// A User is a process, and what it has mapped of one file.
type User struct {
	PID     int    `json:"pid"`
	Command string `json:"command"` // its name, as in /proc/PID/comm: up to 15 bytes that the process can choose
	UID     uint32 `json:"uid"`     // of its effective user

	// File is the file. If it is not the one that is at the path now, it was replaced or deleted since the process
	// mapped it.
	File
	Current bool `json:"current"`
	// Beginning is how many bytes are mapped in one piece from the file's beginning on. Link leads to the file,
	// whatever its path leads to now, for processes that may follow it: root's.
	Beginning int64  `json:"-"`
	Link      string `json:"-"`
	Memory
}

// A File is known by the numbers that the system shows for its mappings. On overlayfs and btrfs the device differs from
// that of stat(2).
type File struct {
	Device string `json:"device"` // major and minor number, hexadecimal, as "fe:00"
	Inode  uint64 `json:"inode"`
}

// Memory is the sum over a process' mappings of a file, in bytes.
type Memory struct {
	Mapped   int64 `json:"mapped_bytes"`   // address space
	Resident int64 `json:"resident_bytes"` // the pages of it that the process has in memory
	// Share is the process' part of Resident, where each page is divided by the number of its mappings in all
	// processes: the system's "proportional set size".
	Share int64 `json:"share_bytes"`
	// Pages that have another mapping, mostly in another process, and pages that have not.
	Shared  int64 `json:"shared_bytes"`
	Private int64 `json:"private_bytes"`
}

// Add adds the memory of other mappings.
func (m *Memory) Add(o *Memory) {
	m.Mapped += o.Mapped
	m.Resident += o.Resident
	m.Share += o.Share
	m.Shared += o.Shared
	m.Private += o.Private
}
