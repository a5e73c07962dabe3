package main

import (
	"fmt"
	"net/http"
	"sync"
)

// A door leads each request to the model in force, and closes a model that was replaced after its last request.
type door struct {
	options options
	figures *figures

	mu      sync.Mutex
	current *entered
}

// entered is a model with the number of its requests under way.
type entered struct {
	*service
	requests int
	replaced bool
}

// reload opens the model's file again, and puts it in force. Where that fails the earlier model stays.
func (d *door) reload() error {
	s, err := openService(d.options)
	if err != nil {
		d.figures.replacements.WithLabelValues(notOpened).Inc()
		return fmt.Errorf("the earlier model goes on serving: %w", err)
	}
	s.figures = d.figures
	d.figures.replacements.WithLabelValues(replaced).Inc()
	return d.replace(&entered{service: s})
}

// close closes the model in force. No request comes any more.
func (d *door) close() error { return d.replace(d.current) }

// replace puts a model in force, and closes the earlier one unless a request is under way with it.
func (d *door) replace(e *entered) error {
	if earlier, unused := d.exchange(e); unused {
		return earlier.end()
	}
	return nil
}

func (d *door) exchange(e *entered) (earlier *entered, unused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	earlier, d.current = d.current, e
	earlier.replaced = true
	return earlier, earlier.requests == 0
}

// enter returns the model in force for a request, which leaves it.
func (d *door) enter() *entered {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current.requests++
	return d.current
}

// leave ends a request. It reports whether the model was replaced, and this was its last request.
func (d *door) leave(e *entered) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.requests--
	return e.replaced && e.requests == 0
}

// with calls do with the model in force, which stays open meanwhile.
func (d *door) with(do func(s *service, w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := d.enter()
		defer d.exit(e)
		do(e.service, w, r)
	}
}

// exit ends a request, and closes the model if it was replaced and this was its last request.
func (d *door) exit(e *entered) {
	if d.leave(e) {
		_ = e.end() // the model has answered; its cache file is complete, or packed again
	}
}

// openDoor opens the model of the options. The caller closes it.
func openDoor(o options) (*door, error) {
	s, err := openService(o)
	if err != nil {
		return nil, err
	}
	d := &door{options: o, figures: s.figures, current: &entered{service: s}}
	d.figures.registry.MustRegister(d.cacheFigures())
	return d, nil
}
