package main

import (
	"fmt"
	"net/http"
	"sync"
)

// A door leads each request to the model in force, and closes a model that was replaced after its last request.
type door struct {
	options options

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
		return fmt.Errorf("the earlier model goes on serving: %w", err)
	}
	d.mu.Lock()
	earlier := d.current
	d.current = &entered{service: s}
	d.mu.Unlock()
	return d.replace(earlier)
}

// replace closes a model, now or after its last request.
func (d *door) replace(e *entered) error {
	d.mu.Lock()
	e.replaced = true
	last := e.requests == 0
	d.mu.Unlock()
	if last {
		return e.end()
	}
	return nil
}

// close closes the model in force. No request is under way.
func (d *door) close() error { return d.replace(d.current) }

// with calls do with the model in force, which stays open meanwhile.
func (d *door) with(do func(s *service, w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		e := d.current
		e.requests++
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			e.requests--
			last := e.replaced && e.requests == 0
			d.mu.Unlock()
			if last {
				_ = e.end() // the model has answered; its cache file is complete, or packed again
			}
		}()
		do(e.service, w, r)
	}
}

// openDoor opens the model of the options. The caller closes it.
func openDoor(o options) (*door, error) {
	s, err := openService(o)
	if err != nil {
		return nil, err
	}
	return &door{options: o, current: &entered{service: s}}, nil
}
