//go:build !linux

package bench

// memoryOf returns no figures: this system has none.
func memoryOf(int) (figures, error) { return nil, nil }

func churn(int64) error { return nil }
