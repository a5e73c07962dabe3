// Package thindisk mounts a disk that cannot take all that it said it had space for, as thin provisioning and bad
// devices do, on Linux. Tests alone use it.
package thindisk
