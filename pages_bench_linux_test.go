package xpwc

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/store"
)

// pagesSize is how much each way writes.
const pagesSize = 512 << 20

// A wayToWrite writes pagesSize bytes of a pattern to a file, as a packing does that goes through memory from the
// beginning to the end.
type wayToWrite struct {
	name  string
	write func(f *os.File, pattern []byte) error
}

// waysToWrite differ in what makes the pages of a mapping, how large they are, and when.
var waysToWrite = []wayToWrite{
	{"plain", throughMappings(nil, nil)},
	{"hugepage", throughMappings(nil, func(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) })},
	{"populated", throughMappings(nil, func(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) })},
	{"prepared-64K", throughMappings(prepared(64<<10), nil)},
	{"prepared-1M", throughMappings(prepared(1<<20), nil)},
	{"prepared-2M", throughMappings(prepared(2<<20), nil)},
	{"prepared-4M", throughMappings(prepared(4<<20), nil)},
	{"pwrite", func(f *os.File, pattern []byte) error {
		buffer := make([]byte, len(pattern))
		for at := 0; at < pagesSize; at += len(pattern) {
			copy(buffer, pattern)
			if _, err := f.WriteAt(buffer, int64(at)); err != nil {
				return err
			}
		}
		return nil
	}},
}

// throughMappings writes through segments, each of which is advised of when it is mapped. before is called with the
// offset of each segment before that. Either may be nil.
func throughMappings(before func(f *os.File, start int) error, advise func([]byte)) func(*os.File, []byte) error {
	return func(f *os.File, pattern []byte) error {
		for start := 0; start < pagesSize; start += store.LastSegment {
			if before != nil {
				if err := before(f, start); err != nil {
					return err
				}
			}
			if err := unix.Fallocate(int(f.Fd()), 0, int64(start), store.LastSegment); err != nil {
				return err
			}
			b, err := unix.Mmap(int(f.Fd()), int64(start), store.LastSegment, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_SHARED)
			if err != nil {
				return err
			}
			if advise != nil {
				advise(b)
			}
			for at := 0; at < len(b); at += len(pattern) {
				copy(b[at:], pattern)
			}
			if err := unix.Munmap(b); err != nil {
				return err
			}
		}
		return nil
	}
}

// prepared writes zeros to a segment before it is mapped, so much with one call: to the first at once, and to each of
// the others while the one before it is written to.
func prepared(piece int) func(f *os.File, start int) error {
	zeros := make([]byte, piece)
	var written chan error
	begin := func(f *os.File, start int) {
		written = make(chan error, 1)
		go func(written chan<- error) {
			err := unix.Fallocate(int(f.Fd()), 0, int64(start), store.LastSegment)
			for at := 0; at < store.LastSegment && err == nil; at += piece {
				_, err = f.WriteAt(zeros, int64(start+at))
			}
			written <- err
		}(written)
	}
	return func(f *os.File, start int) error {
		if start == 0 {
			begin(f, 0)
		}
		err := <-written
		if next := start + store.LastSegment; next < pagesSize {
			begin(f, next)
		}
		return err
	}
}

// waysToRead differ in how the file's pages, which are in the page cache, come into a new mapping. What advise returns
// waits until that is done.
var waysToRead = []struct {
	name   string
	advise func(b []byte) (wait func())
}{
	{"plain", func([]byte) func() { return func() {} }},
	{"hugepage", func(b []byte) func() {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
		return func() {}
	}},
	{"mapped-beside", func(b []byte) func() {
		var group sync.WaitGroup
		group.Go(func() {
			for piece := range slices.Chunk(b, 1<<20) {
				_ = unix.Madvise(piece, unix.MADV_POPULATE_READ)
			}
		})
		return group.Wait
	}},
	{"collapsed", func(b []byte) func() { // refused unless the kernel has huge pages of files that are only read
		_ = unix.Madvise(b, unix.MADV_COLLAPSE)
		return func() {}
	}},
}

// BenchmarkPages compares ways of supplying the pages of a new file that is written through memory, each after small
// pages were used and freed; and what reading it through a new mapping then takes, the first time and later. The order
// changes from round to round. It logs medians, the least and the greatest time.
func BenchmarkPages(b *testing.B) {
	pattern := make([]byte, 1<<20)
	for i := range pattern {
		pattern[i] = byte(rand.Uint32())
	}
	path := filepath.Join(b.TempDir(), "file")
	times := map[string][]time.Duration{}
	measure := func(name string, do func()) {
		start := time.Now()
		do()
		times[name] = append(times[name], time.Since(start))
	}
	for range max(b.N, 6) {
		for _, i := range rand.Perm(len(waysToWrite)) {
			way := waysToWrite[i]
			unix.Sync() // the file before it was removed
			churn(b, pagesSize)
			f, err := os.Create(path)
			require.NoError(b, err)
			measure("write "+way.name, func() { require.NoError(b, way.write(f, pattern)) })
			require.NoError(b, f.Sync())
			for _, j := range rand.Perm(len(waysToRead)) {
				mapped, err := unix.Mmap(int(f.Fd()), 0, pagesSize, unix.PROT_READ, unix.MAP_SHARED)
				require.NoError(b, err)
				name := "written " + way.name + ", read " + waysToRead[j].name
				wait := waysToRead[j].advise(mapped)
				measure(name+", first", func() { readEveryLine(mapped) })
				wait()
				measure(name+", then", func() { readEveryLine(mapped) })
				require.NoError(b, unix.Munmap(mapped))
			}
			require.NoError(b, errors.Join(f.Close(), os.Remove(path)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		t := slices.Sorted(slices.Values(times[name]))
		ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
		b.Logf("%-60s %6.1f ms (%.1f - %.1f)", name, medianOf(t)/1e6, ms(t[0]), ms(t[len(t)-1]))
	}
}

func medianOf(t []time.Duration) float64 { return float64(t[len(t)/2]) }

var readSum uint64

func readEveryLine(b []byte) {
	for i := 0; i < len(b); i += 64 {
		readSum += uint64(b[i])
	}
}

// churn uses small pages and frees them.
func churn(b *testing.B, size int) {
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(b, err)
	require.NoError(b, unix.Madvise(m, unix.MADV_NOHUGEPAGE))
	for i := 0; i < len(m); i += os.Getpagesize() {
		m[i] = 1
	}
	require.NoError(b, unix.Munmap(m))
}
