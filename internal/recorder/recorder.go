// Package recorder is a weights cache that writes down what XNNPACK asks of it: tests use it to hold on to facts
// about when XNNPACK looks up, reserves and inserts.
package recorder

/*
#cgo CFLAGS: -Wall -Wextra
#include "recorder.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Call is one of the calls of a weights cache that happen while a runtime is created.
type Call int

// The calls.
const (
	LookUp Call = iota
	Reserve
	Insert
)

// Event is one call by XNNPACK.
type Event struct {
	Call Call
	Hit  bool // LookUp found an entry; Insert found one with the same bytes
}

// Recorder is the cache. It implements xnnpack.WeightsCache.
type Recorder struct {
	r *C.struct_recorder
}

// New makes an empty cache.
func New() (*Recorder, error) {
	r := C.recorder_create()
	if r == nil {
		return nil, errors.New("recorder: out of memory")
	}
	return &Recorder{r}, nil
}

// Provider implements xnnpack.WeightsCache.
func (r *Recorder) Provider() unsafe.Pointer { return unsafe.Pointer(&r.r.provider) }

// Finalize lets runtimes use the packed weights.
func (r *Recorder) Finalize() error {
	r.r.finalized = true
	return nil
}

// Reopen takes Finalize back, for another runtime to be created.
func (r *Recorder) Reopen() { r.r.finalized = false }

// Take returns the calls since the last Take. It fails if there were more than the recorder keeps.
func (r *Recorder) Take() ([]Event, error) {
	if r.r.events > C.recorder_limit {
		return nil, errors.New("recorder: too many calls")
	}
	var events []Event
	for _, e := range r.r.event[:r.r.events] {
		events = append(events, Event{Call(e.call), bool(e.hit)})
	}
	r.r.events = 0
	return events, nil
}

// Delete frees the packed weights; no runtime may use them any more.
func (r *Recorder) Delete() {
	C.recorder_delete(r.r)
	r.r = nil
}
