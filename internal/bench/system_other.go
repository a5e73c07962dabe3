//go:build !linux

package bench

import (
	"errors"
	"os"
	"time"
)

// errNotHere: this system has no way to do it.
var errNotHere = errors.New("not possible on this system")

func syncData(f *os.File) error { return f.Sync() }

func dropPages(string) error { return errNotHere }

func processorTimeOf(int) (time.Duration, error) { return 0, errNotHere }

func readDirect(string) (time.Duration, error) { return 0, errNotHere }

// This system has no figures of memory.

func memoryOf(int) (figures, error) { return nil, nil }

func churn(int64) error { return nil }
