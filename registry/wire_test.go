//go:build cgo

package registry_test

import (
	"net/http"
	"sync"
)

// A wire counts requests by method, and calls hooks before each is sent and after it was answered.
type wire struct {
	mu                sync.Mutex
	requests          map[string]int
	request, response func(*http.Request)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	if w.requests == nil {
		w.requests = map[string]int{}
	}
	w.requests[r.Method]++
	w.mu.Unlock()
	if w.request != nil {
		w.request(r)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if w.response != nil {
		w.response(r)
	}
	return resp, err
}
