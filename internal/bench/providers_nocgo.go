//go:build !cgo

package bench

import (
	"errors"

	"xpwc/internal/instance"
)

var errNoCgo = errors.New("built without cgo")

func providedBy(task) (instance.Backing, func() error, error) { return nil, nil, errNoCgo }

func record(task) (*recording, error) { return nil, errNoCgo }
