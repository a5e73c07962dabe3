package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
)

// errNoMemoryFigures: this system does not have them.
var errNoMemoryFigures = errors.New("this system has no figures of memory")

// memory is the resident memory of a process, in bytes.
type memory struct {
	RSS          int64 `json:"rss_bytes"`
	RSSAnon      int64 `json:"rss_anon_bytes"`
	RSSFile      int64 `json:"rss_file_bytes"`
	PrivateDirty int64 `json:"private_dirty_bytes"`
	PSS          int64 `json:"pss_bytes"`
	Peak         int64 `json:"peak_rss_bytes"` // of the process so far
}

// measureMemory returns this process' memory, after giving the free pages of the Go heap back to the system.
func measureMemory() (memory, error) {
	debug.FreeOSMemory()
	return readMemory()
}

// parseMemory reads the figures from the texts of /proc/self/status and /proc/self/smaps_rollup.
func parseMemory(status, rollup []byte) (memory, error) {
	var m memory
	for _, f := range []struct {
		to   *int64
		text []byte
		name string
	}{
		{&m.RSS, status, "VmRSS"},
		{&m.RSSAnon, status, "RssAnon"},
		{&m.RSSFile, status, "RssFile"},
		{&m.PrivateDirty, rollup, "Private_Dirty"},
		{&m.PSS, rollup, "Pss"},
		{&m.Peak, status, "VmHWM"},
	} {
		var err error
		if *f.to, err = kilobytes(f.text, f.name); err != nil {
			return memory{}, err
		}
	}
	return m, nil
}

// kilobytes finds a line "name: 12 kB" and returns it in bytes.
func kilobytes(text []byte, name string) (int64, error) {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name+":"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return 0, fmt.Errorf("%s: %q is not a number of kB", name, bytes.TrimSpace(rest))
		}
		n, err := strconv.ParseUint(string(fields[0]), 10, 63)
		if err != nil || n > math.MaxInt64/1024 {
			return 0, fmt.Errorf("%s: %q is not a number of kB", name, bytes.TrimSpace(rest))
		}
		return int64(n) * 1024, nil
	}
	return 0, fmt.Errorf("%s is not listed", name)
}
