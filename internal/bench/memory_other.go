//go:build !linux

package bench

func memoryOf(int) (memory, error) { return memory{}, errNoMemoryFigures }

func churn(int64) error { return nil }
