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

// touchMemory touches memory, frees it, and forgets the peak. Where the machine is a virtual one its host may have taken back
// what was free, and the first to use it again pays for that: up to several seconds, or nothing, as it happens.
func touchMemory(size int64) error {
	if size == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // as page caches take it; no more than a hint
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return errors.Join(unix.Munmap(b), os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}
