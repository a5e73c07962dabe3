package main

import (
	"errors"
	"os"
)

// lockable: on Windows only package xpwc can replace a file that others have open.
const lockable = false

func lockFile(*os.File) (bool, error) { return false, errors.ErrUnsupported }
