package osdisk

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
)

// Granularity returns the unit of a mapping's file offset, in bytes. It is the same on every Windows.
func Granularity() uint64 { return 64 << 10 }

// Seal makes a stray write to the mapping fault. Otherwise it would reach the file.
func (m mapping) Seal(start int) error {
	var old uint32
	err := windows.VirtualProtect(addressOf(m[start:]), uintptr(len(m)-start), windows.PAGE_READONLY, &old)
	if err != nil {
		return fmt.Errorf("make %d bytes read-only: %w", len(m)-start, err)
	}
	return nil
}

// syncAttempts is the number of attempts while the system itself writes the same pages, with syncPause between two.
const (
	syncAttempts = 20
	syncPause    = time.Millisecond
)

// Sync hands the pages to the system. Flush of the file waits until they are written.
func (m mapping) Sync(start, end int) (err error) {
	if start == end {
		return nil // a length of 0 would mean all
	}
	for attempt := range syncAttempts {
		if attempt > 0 {
			time.Sleep(syncPause)
		}
		err = windows.FlushViewOfFile(addressOf(m[start:]), uintptr(end-start))
		if !errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			break
		}
	}
	return err
}

func (m mapping) Unmap() error { return windows.UnmapViewOfFile(addressOf(m)) }
