//go:build !linux

package cpu

// arm64Core returns "": only Linux tells programs which core it is.
func arm64Core() string { return "" }

func hasI8MM() bool { return false }
