package bench

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func readMemory() (memory, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return memory{}, err
	}
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return memory{}, err
	}
	return parseMemory(status, rollup)
}

// touchMemory touches memory, frees it, and resets the peak. The host of a virtual machine may have taken back free
// memory, and who uses it again first waits for it: for up to several seconds, or not at all.
func touchMemory(size int64) error {
	if size == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // as page caches use memory; only a hint
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return errors.Join(unix.Munmap(b), os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}
