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

// Take returns the calls since the last Take, a letter each: l is a look-up, r a reservation, and i an insert. L is a
// look-up that found an entry, and I an insert that found one with the same bytes. It fails if there were more than the
// recorder keeps.
func (r *Recorder) Take() (calls string, err error) {
	if r.r.calls > C.recorder_limit {
		return "", errors.New("recorder: too many calls")
	}
	calls = C.GoStringN(&r.r.call[0], C.int(r.r.calls))
	r.r.calls = 0
	return calls, nil
}

// Delete frees the packed weights; no runtime may use them any more.
func (r *Recorder) Delete() {
	C.recorder_delete(r.r)
	r.r = nil
}
