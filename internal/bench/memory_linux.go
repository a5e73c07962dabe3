package bench

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func readMemory() (memory, error) { return memoryOf("self") }

// memoryOf reads the memory of a process, by its name in /proc.
func memoryOf(process string) (memory, error) {
	status, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return memory{}, err
	}
	rollup, err := os.ReadFile(filepath.Join("/proc", process, "smaps_rollup"))
	if err != nil {
		return memory{}, err
	}
	return parseMemory(status, rollup)
}

// churn uses small pages and frees them, as programs do that a machine runs all the time. Who takes memory next finds
// what that left: pages that the host of a virtual machine has or has not taken back, in large pieces or small ones.
func churn(size int64) error {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // fails where there are no others
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return unix.Munmap(b)
}
