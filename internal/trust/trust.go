// Package trust says which files and links nobody but this user and root can change. Who can change a cache file
// chooses the answers; who can change a link to it chooses which file is opened, and perhaps replaced.
package trust

import "errors"

// ErrUnsafe: another user could change the file, or the path leads to something that is not a regular file.
var ErrUnsafe = errors.New("not opened for safety; correct its owner and mode, or set Options.AllowUnsafeFile")
