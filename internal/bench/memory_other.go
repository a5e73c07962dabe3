//go:build !linux

package bench

// This system has no figures of memory.

func memoryOf(int) (figures, error) { return nil, nil }

func churn(int64) error { return nil }
