//go:build !linux

package bench

// This system has no figures of memory and page faults.

func memoryOf(int) (figures, error) { return nil, nil }

func faults() figures { return nil }

func churn(int64) error { return nil }
