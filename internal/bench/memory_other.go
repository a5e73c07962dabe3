//go:build !linux

package bench

func readMemory() (memory, error) { return memory{}, errNoMemoryFigures }

func memoryOf(string) (memory, error) { return memory{}, errNoMemoryFigures }

func churn(int64) error { return nil }
