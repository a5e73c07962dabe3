package output

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
)

// A Hole is a range of bytes that take no space on the disk, and are read as zeros.
type Hole struct{ Offset, Size int64 }

// WriteWithHoles writes bytes at an offset that is the file's end, with holes among them where the file system has
// them.
func WriteWithHoles(to *os.File, at int64, b []byte, holes []Hole) error {
	if err := to.Truncate(at + int64(len(b))); err != nil {
		return err
	}
	holes = slices.SortedFunc(slices.Values(holes), func(a, b Hole) int { return cmp.Compare(a.Offset, b.Offset) })
	done := int64(0)
	for _, h := range append(holes, Hole{Offset: int64(len(b))}) {
		if h.Offset > done {
			if _, err := to.WriteAt(b[done:h.Offset], at+done); err != nil {
				return err
			}
		}
		done = max(done, h.Offset+h.Size)
	}
	return nil
}

// SkeletonMark ends a model without its weights, a skeleton, where no runtime looks.
const SkeletonMark = "\nxpwc skeleton: its weights are in a file of packed weights\n"

// MarkSkeleton writes the mark to a file's end.
func MarkSkeleton(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.WriteAt([]byte(SkeletonMark), end)
	}
	return err
}

// IsSkeleton reports whether a file that ends with these bytes, of which at least the last 128 are given, is a skeleton.
func IsSkeleton(end []byte) bool { return bytes.HasSuffix(end, []byte(SkeletonMark)) }
