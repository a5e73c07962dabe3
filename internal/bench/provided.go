//go:build cgo

package bench

import (
	"errors"

	"xpwc/internal/bench/provider"
	"xpwc/internal/instance"
)

// provided is the backing of modeIdeal, modeWrite and modeRecord. done ends its use. What modeRecord has packed is
// among the figures.
func (t task) provided(f figures) (b instance.Backing, done func() error, err error) {
	if t.Mode == modeIdeal {
		cache, err := provider.Open(t.Cache)
		if err != nil {
			return nil, nil, err
		}
		done = func() error { return errors.Join(cache.CheckAnswers(), cache.Close()) }
		return instance.PackedInProvider(cache, nil), done, nil
	}
	writer, err := provider.Create(t.Cache)
	if err != nil {
		return nil, nil, err
	}
	finalize := writer.Finalize
	if t.Mode == modeRecord {
		finalize = func() error {
			n, size, err := writer.Keep()
			f[payloads], f[payloadBytes] = float64(n), float64(size)
			return errors.Join(err, writer.Finalize())
		}
	}
	return instance.PackedInProvider(writer, finalize), writer.Close, nil
}
