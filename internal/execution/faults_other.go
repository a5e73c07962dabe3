//go:build !linux

package execution

// PageFaults returns this process' faults so far, or none where the system does not count them.
func PageFaults() Faults { return Faults{} }
