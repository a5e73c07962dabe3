// Package thindisk mounts file systems for tests on Linux, above all a disk that cannot take all that it said it had
// space for, as thin provisioning and bad devices do.
package thindisk
