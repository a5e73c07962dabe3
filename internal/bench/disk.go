package bench

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"xpwc/internal/mapped"
)

// writeDurably returns how long it takes to write a file's first n bytes to a new file, 1 MiB at a time, and to wait
// for the disk, as dd conv=fdatasync does. The bytes are in memory before the clock starts. They are the file's own
// because some disks write other bytes, such as zeros, faster. The new file is removed again.
func writeDurably(from string, n int64, path string) (took time.Duration, err error) {
	source, err := mapped.Open(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	left := source.Data()[:n]
	var sum byte
	for i := 0; i < len(left); i += os.Getpagesize() {
		sum += left[i]
	}
	runtime.KeepAlive(sum)
	start := time.Now()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	for piece := range slices.Chunk(left, 1<<20) {
		if _, err = f.Write(piece); err != nil {
			break
		}
	}
	err = errors.Join(err, syncData(f))
	took = time.Since(start)
	return took, errors.Join(err, f.Close())
}
