package execution

// Faults is how often a page of memory was not there: minor ones are answered from memory, major ones by the disk.
type Faults struct {
	Minor int64 `json:"minor"`
	Major int64 `json:"major"`
}

// Since returns the faults after an earlier count.
func (f Faults) Since(before Faults) Faults {
	return Faults{f.Minor - before.Minor, f.Major - before.Major}
}
