package bench

import (
	"errors"

	"xpwc/internal/bench/ideal"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
)

// recording is what the process of modeRecord reports.
type recording struct {
	PayloadBytes int64         `json:"payload_bytes"`
	Places       []ideal.Place `json:"places"` // of the payloads in the file
}

// record packs a model's weights and writes them to t.Cache, for modeIdeal.
func record(t task) (r *recording, err error) {
	m, err := t.open()
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
	r = &recording{}
	if r.Places, err = c.Save(t.Cache); err != nil {
		return nil, err
	}
	for _, p := range r.Places {
		r.PayloadBytes += p.Size
	}
	return r, nil
}
