package mappings

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

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
		key, value, found := strings.Cut(text, ":")
		if found && !strings.Contains(key, " ") {
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
	to := map[string]*int64{
		"Rss": &m.Resident, "Pss": &m.Share,
		"Shared_Clean": &m.Shared, "Shared_Dirty": &m.Shared, "Private_Clean": &m.Private, "Private_Dirty": &m.Private,
	}[key]
	if to == nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	if err != nil {
		return fmt.Errorf("%s:%s is no number of kB: %w", key, value, err)
	}
	*to += n << 10
	return nil
}
