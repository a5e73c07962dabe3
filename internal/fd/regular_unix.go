//go:build unix

package fd

import "golang.org/x/sys/unix"

// atOnce opens without waiting for the writer of a pipe.
const atOnce = unix.O_NONBLOCK | unix.O_NOCTTY
