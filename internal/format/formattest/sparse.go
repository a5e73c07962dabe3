// Package formattest makes files for tests that nothing in the project writes.
package formattest

import (
	"errors"
	"os"
)

// Sparse makes a file of so many bytes at path, of which only the parts take space on the disk, by their offsets.
func Sparse(path string, size int64, parts map[int64][]byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for at, b := range parts {
		_, writeErr := f.WriteAt(b, at)
		err = errors.Join(err, writeErr)
	}
	return errors.Join(err, f.Truncate(size), f.Close())
}
