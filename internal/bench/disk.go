package bench

import (
	"errors"
	"os"
	"slices"
	"time"
)

// writeDurably returns how long it takes to write a file's first n bytes to a new file, 1 MiB at a time, and to wait
// for the disk, as dd conv=fdatasync does. The bytes are in memory before the clock starts. They are the file's own
// because some disks write other bytes, such as zeros, faster. The new file is removed again.
func writeDurably(from string, n int64, path string) (took time.Duration, err error) {
	content, err := os.ReadFile(from)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	for piece := range slices.Chunk(content[:n], 1<<20) {
		if _, err = f.Write(piece); err != nil {
			break
		}
	}
	err = errors.Join(err, syncData(f))
	took = time.Since(start)
	return took, errors.Join(err, f.Close())
}
