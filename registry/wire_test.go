//go:build cgo

package registry_test

import (
	"net/http"
	"sync"
)

// A wire counts requests by method, and calls hooks before each is sent and after it was answered.
type wire struct {
	mu            sync.Mutex
	requests      map[string]int
	before, after func(*http.Request)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	if w.requests == nil {
		w.requests = map[string]int{}
	}
	w.requests[r.Method]++
	w.mu.Unlock()
	if w.before != nil {
		w.before(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if w.after != nil {
		w.after(r)
	}
	return resp, err
}
