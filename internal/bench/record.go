package bench

import (
	"errors"
	"fmt"

	"xpwc"
	"xpwc/internal/bench/ideal"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/xnnpack"
)

// recording is what the process of modeRecord reports.
type recording struct {
	Payloads      int   `json:"payloads"`
	PayloadBytes  int64 `json:"payload_bytes"`
	LargestTensor int64 `json:"largest_tensor_bytes"` // unpacked
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
	sized := &sizedModel{Model: m}
	e, err := execution.Load(sized, instance.PackedInProvider(c, nil), t.Threads)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r = &recording{LargestTensor: sized.largest}
	for _, p := range c.Payloads() {
		r.Payloads++
		r.PayloadBytes += int64(len(p))
	}
	return r, c.Save(t.Cache)
}

// sizedModel notes the size of its largest constant.
type sizedModel struct {
	models.Model
	largest int64
}

func (m *sizedModel) Stages() (stages []models.Stage, between []models.Buffer) {
	stages, between = models.StagesOf(m.Model)
	for i, s := range stages {
		if s.Subgraph != nil {
			stages[i].Subgraph = func(l models.Loader) (*xnnpack.Subgraph, error) {
				return s.Subgraph(sizedLoader{l, m})
			}
		}
	}
	return stages, between
}

type sizedLoader struct {
	models.Loader
	of *sizedModel
}

func (l sizedLoader) Load(name string, options ...xpwc.LoadOption) ([]byte, error) {
	b, err := l.Loader.Load(name, options...)
	l.of.largest = max(l.of.largest, int64(len(b)))
	return b, err
}

// checkAnswers fails if a cache that knows everything was asked something else than what was recorded.
func checkAnswers(c *ideal.Cache) error {
	if c.Misses() > 0 || c.Unasked() > 0 {
		return fmt.Errorf("the recording is of another runtime: %d look-ups missed, %d answers are left",
			c.Misses(), c.Unasked())
	}
	return nil
}
