// Package thindisk mounts file systems for tests on Linux, above all a disk that cannot store all the blocks that it
// promised, as with thin provisioning and bad devices.
package thindisk
