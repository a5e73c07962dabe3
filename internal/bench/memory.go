package bench

import (
	"os"
	"runtime/debug"
)

// measureMemory returns this process' memory, after giving the free pages of the Go heap back to the system.
func measureMemory() (figures, error) {
	debug.FreeOSMemory()
	return memoryOf(os.Getpid())
}
