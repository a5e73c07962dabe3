package mappings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"xpwc/internal/fd"
)

// Find returns the processes that have a path's file mapped: the present file, if any, or an earlier one. The present
// file must be a regular one that this process may read.
func Find(path string) (*Survey, error) {
	target, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &surveyor{Survey: Survey{Path: target}}
	if real, err := filepath.EvalSymlinks(target); err == nil {
		s.Path = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(target)); err == nil {
		s.Path = filepath.Join(dir, filepath.Base(target)) // it was deleted
	}
	if err := s.look(path); err != nil {
		return nil, err
	}
	return &s.Survey, s.survey()
}

// A surveyor finds the processes.
type surveyor struct {
	Survey
	current File // that is at the path; zero if none is
}

// look looks at the file that is at the path now.
func (s *surveyor) look(path string) error {
	f, info, err := fd.OpenRegular(s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fd.ErrNotRegular):
		return fmt.Errorf("%s is %w, which alone can be mapped", path, err)
	case err != nil:
		return err
	}
	defer f.Close()
	s.Info = info
	if s.current, err = mappedAs(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// mappedAs returns by which numbers mappings of a file are known, by mapping it.
func mappedAs(f *os.File) (File, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return File{}, fmt.Errorf("map it: %w", err)
	}
	defer func() { _ = unix.Munmap(b) }()
	content, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return File{}, err
	}
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	var mapped File
	err = parse(content, func(m mapping) {
		if m.start <= addr && addr < m.end {
			mapped = m.file
		}
	})
	if err == nil && mapped == (File{}) {
		err = errors.New("/proc/self/maps does not have what this process has mapped")
	}
	return mapped, err
}

func (s *surveyor) survey() error {
	processes, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	slices.SortFunc(processes, func(a, b procfs.Proc) int { return cmp.Compare(a.PID, b.PID) })
	for _, p := range processes {
		if p.PID == os.Getpid() {
			continue
		}
		users, err := s.usersIn(p)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // it has ended
		case errors.Is(err, fs.ErrPermission):
			s.Hidden++
		case err != nil:
			return err
		default:
			s.Users = append(s.Users, users...)
		}
	}
	return nil
}

// usersIn returns what a process has mapped of the files of the path.
func (s *surveyor) usersIn(p procfs.Proc) ([]User, error) {
	dir := filepath.Join("/proc", strconv.Itoa(p.PID))
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil {
		return nil, err
	}
	// To count the pages of all mappings takes the system long, and few processes have one that is asked for.
	matches := false
	if err := parse(maps, func(m mapping) { matches = matches || s.ofPath(dir, &m) }); err != nil || !matches {
		return nil, err
	}
	smaps, err := os.ReadFile(filepath.Join(dir, "smaps"))
	if err != nil {
		return nil, err
	}
	var users []User
	var last mapping // that was taken
	var begun int64  // where in the file a piece ends that begins with it
	err = parse(smaps, func(m mapping) {
		if !s.ofPath(dir, &m) {
			return
		}
		i := slices.IndexFunc(users, func(u User) bool { return u.File == m.file })
		if i < 0 {
			i = len(users)
			users = append(users, User{PID: p.PID, File: m.file, Current: m.file == s.current, Link: m.link(dir)})
		}
		u := &users[i]
		u.Memory.Add(&m.memory)
		goesOn := last.file == m.file && last.end == m.start && begun == m.offset // it is split where flags differ
		if begun = 0; goesOn || m.offset == 0 {
			begun = m.offset + m.memory.Mapped
		}
		u.Beginning = max(u.Beginning, begun)
		last = m
	})
	if err != nil || len(users) == 0 { // it has unmapped them meanwhile
		return nil, err
	}
	command, err := p.Comm()
	if err != nil {
		return nil, err
	}
	status, err := p.NewStatus()
	if err != nil {
		return nil, err
	}
	for i := range users {
		users[i].Command, users[i].UID = command, uint32(status.UIDs[1])
	}
	return users, nil
}

// ofPath reports whether a mapping of a process is one of the file that is at the path, or of one that was.
func (s *surveyor) ofPath(dir string, m *mapping) bool {
	if m.file.Inode == 0 {
		return false
	}
	if m.file == s.current {
		return true
	}
	if !strings.HasSuffix(m.name, deleted) {
		return false
	}
	whole, _ := os.Readlink(m.link(dir)) // where a newline is one; not all systems have it
	whole = cmp.Or(whole, m.name)
	name, gone := strings.CutSuffix(whole, deleted)
	if !gone || name != s.Path && (m.file.Device != s.current.Device || !s.leadsHere(filepath.Join(dir, "root",
		name))) {
		return false
	}
	return !livesAt(filepath.Join(dir, "root", whole), m.file) // under a name that ends so
}

// link is where the system links to the file of a mapping of a process.
func (m *mapping) link(dir string) string {
	return filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", m.start, m.end))
}

// leadsHere reports whether a path of a process leads to the file that is at the surveyed path. In a container the file
// may have another path.
func (s *surveyor) leadsHere(path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, s.Info)
}

// livesAt reports whether a file is at a path.
func livesAt(path string, file File) bool {
	f, _, err := fd.OpenRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	existing, err := mappedAs(f)
	return err == nil && existing == file
}

// A mapping is an entry of /proc/PID/maps or smaps; only the latter has memory.
type mapping struct {
	start, end uint64 // addresses
	offset     int64  // in the file
	file       File
	name       string // a newline in it is written as \012
	memory     Memory
}

// deleted is what the system adds to the name of a file that is at no path any more, or not at this one.
const deleted = " (deleted)"

// parse calls do with the entries of maps or smaps.
func parse(content []byte, do func(mapping)) error {
	var m mapping
	begun := false
	for line := range bytes.Lines(content) {
		text := strings.TrimSuffix(string(line), "\n")
		key, value, ok := strings.Cut(text, ":")
		if ok && !strings.Contains(key, " ") {
			if err := m.memory.add(key, value); err != nil {
				return err
			}
			continue
		}
		if begun {
			do(m)
		}
		var err error
		if m, err = parseMapping(text); err != nil {
			return err
		}
		begun = true
	}
	if begun {
		do(m)
	}
	return nil
}

// parseMapping reads the first line of an entry: addresses, permissions, offset, device, inode, and a name that may
// have blanks anywhere.
func parseMapping(line string) (m mapping, err error) {
	var fields [5]string
	rest := line
	for i := range fields {
		fields[i], rest, _ = strings.Cut(rest, " ")
	}
	m.name = strings.TrimLeft(rest, " ")
	m.file.Device = fields[3]
	start, end, _ := strings.Cut(fields[0], "-")
	if m.start, err = strconv.ParseUint(start, 16, 64); err == nil {
		m.end, err = strconv.ParseUint(end, 16, 64)
	}
	var offset uint64
	if err == nil {
		offset, err = strconv.ParseUint(fields[2], 16, 64)
		m.offset = int64(offset)
	}
	if err == nil {
		m.file.Inode, err = strconv.ParseUint(fields[4], 10, 64)
	}
	if err != nil {
		return m, fmt.Errorf("%q is no mapping: %w", line, err)
	}
	m.memory.Mapped = int64(m.end - m.start)
	return m, nil
}

// add adds a line of smaps, such as "Rss:   4 kB".
func (m *Memory) add(key, value string) error {
	fields := map[string]*int64{
		"Rss": &m.Resident, "Pss": &m.Share,
		"Shared_Clean": &m.Shared, "Shared_Dirty": &m.Shared, "Private_Clean": &m.Private, "Private_Dirty": &m.Private,
	}[key]
	if fields == nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	if err != nil {
		return fmt.Errorf("%s:%s is no number of kB: %w", key, value, err)
	}
	*fields += n << 10
	return nil
}
