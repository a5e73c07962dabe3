package emulator

import "os"

// hold takes no lock: there is no qemu for programs of Linux on Windows.
func hold(string) (*os.File, error) { return nil, nil }

// ownDirectory reports that no directory may be removed, since none has a lock.
func ownDirectory(string) bool { return false }
