//go:build !linux

package bench

import (
	"os"
	"time"
)

func syncData(f *os.File) error { return f.Sync() }

func dropPages(string) error { return errNotHere }

func readDirect(string, bool) (time.Duration, error) { return 0, errNotHere }
