//go:build !cgo

package bench

import (
	"errors"

	"xpwc/internal/instance"
)

func (t task) provided(figures) (instance.Backing, func() error, error) {
	return nil, nil, errors.New("built without cgo")
}
