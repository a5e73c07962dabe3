package bench

import (
	"errors"
	"os"
	"runtime/debug"
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
	return memoryOf(os.Getpid())
}
