//go:build cgo

package bench

import (
	"errors"

	"xpwc/internal/bench/ideal"
	"xpwc/internal/bench/written"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
)

// providedBy is where the packed weights of modeIdeal and modeWrite are. done ends its use.
func providedBy(t task) (b instance.Backing, done func() error, err error) {
	if t.Mode == modeIdeal {
		known, err := ideal.Open(t.Cache, t.Places)
		if err != nil {
			return nil, nil, err
		}
		done = func() error { return errors.Join(known.CheckAnswers(), known.Close()) }
		return instance.PackedInProvider(known, nil), done, nil
	}
	c, err := written.Create(t.Cache)
	if err != nil {
		return nil, nil, err
	}
	return instance.PackedInProvider(c, c.Finalize), c.Close, nil
}

// record packs a model's weights and writes them to t.Cache, for modeIdeal.
func record(t task) (r *recording, err error) {
	m, err := t.Model.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	c, err := ideal.New()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	e, err := execution.Load(m, instance.PackedInProvider(c, nil), t.Threads)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	places, err := c.Save(t.Cache)
	return &recording{places}, err
}
