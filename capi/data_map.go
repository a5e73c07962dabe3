package main

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"xpwc"
)

// A dataMap is a session's view of the host's unpacked tensors: a callback or a table.
type dataMap struct {
	get     C.struct_xpwc_callback // or else the table is used
	changed C.struct_xpwc_callback
	table   map[string]*tensor
	asked   map[string]error // what get failed with

	mu    sync.Mutex
	given []*tensor // that are yet to be released
}

// A watch is an xpwc.Watch of the tensors with one source.
type watch struct {
	data   *dataMap
	source string
}

// Changed implements xpwc.Watch.
func (w watch) Changed() (bool, error) {
	source := C.CString(w.source)
	defer C.free(unsafe.Pointer(source))
	var says C.int
	if status := C.xpwc_call_changed(w.data.changed, source, &says); status != C.XPWC_STATUS_OK {
		return false, errors.New(callbackError{"changed", status}.Error()) // the call's status is what it means
	}
	return says != 0, nil
}

// newDataMap copies the table: later only what tensors point to is read.
func newDataMap(get, changed C.struct_xpwc_callback, tensors *C.xpwc_const_tensor, n C.size_t) (*dataMap, error) {
	m := &dataMap{get: get, changed: changed, table: map[string]*tensor{}, asked: map[string]error{}}
	if get.function != 0 || n == 0 {
		return m, nil
	}
	if tensors == nil {
		return nil, invalid("data.tensors is NULL")
	}
	distance := tensors.struct_size
	if distance == 0 || uintptr(distance)%unsafe.Alignof(*tensors) != 0 || uint64(n) > math.MaxInt64/uint64(distance) {
		return nil, invalid("data.tensors[0].struct_size is %d, data.tensor_count %d", distance, n)
	}
	var shared identityStrings
	for i := range n {
		var view C.struct_xpwc_tensor_view
		if !bool(C.xpwc_view_table(tensors, distance, i, &view)) {
			return nil, invalid("data.tensors[%d].struct_size is not the first's, or an unknown member is set", i)
		}
		if view.name == nil {
			return nil, invalid("data.tensors[%d].name is NULL", i)
		}
		name := C.GoString(view.name)
		if m.table[name] != nil {
			return nil, invalid("data.tensors[%d].name is %q, as another one's", i, name)
		}
		t := newTensor(&view, &shared, get.cache)
		if err := t.check(&view); err != nil {
			return nil, fmt.Errorf("data.tensors[%d], %q: %w", i, name, err)
		}
		m.table[name] = t
	}
	return m, nil
}

// Tensor implements xpwc.DataMap. The session asks once for each name that is there; the host is not asked again for
// one that is not, either.
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	t, err := m.tensor(name)
	if t != nil {
		m.give(t)
	}
	if err != nil {
		return xpwc.Tensor{}, err
	}
	u := t.unpacked()
	if m.changed.function != 0 {
		u.Identity.Watch = watch{m, u.Identity.Source}
	}
	return u, nil
}

func (m *dataMap) tensor(name string) (*tensor, error) {
	if m.get.function == 0 {
		if t := m.table[name]; t != nil {
			return t, nil
		}
		return nil, xpwc.ErrUnknownTensor
	}
	if err := m.asked[name]; err != nil {
		return nil, err
	}
	t, err := m.ask(name)
	if err != nil {
		m.asked[name] = err
	}
	return t, err
}

// ask returns a tensor that was given, so that it is released, with an error if it makes no sense.
func (m *dataMap) ask(name string) (*tensor, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var view C.struct_xpwc_tensor_view
	switch status := C.xpwc_call_get(m.get, c, &view); status {
	case C.XPWC_STATUS_OK:
		t := newTensor(&view, &identityStrings{}, m.get.cache)
		return t, t.check(&view)
	case C.XPWC_STATUS_UNKNOWN_TENSOR:
		return nil, xpwc.ErrUnknownTensor
	default:
		return nil, callbackError{"data map", status}
	}
}

// collectedFor is how many tensors leave so much garbage that it is given back at once. The Go heap is the library's
// own.
const collectedFor = 1 << 14

// settle forgets what a finalized session will not ask for, and has released.
func (m *dataMap) settle() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	many := len(m.given) >= collectedFor
	m.given = slices.Clone(slices.DeleteFunc(m.given, func(t *tensor) bool { return t.released.Load() }))
	m.table, m.asked = nil, nil
	if many {
		go debug.FreeOSMemory()
	}
}

// end releases the tensors that the session did not take.
func (m *dataMap) end() {
	if m == nil {
		return
	}
	for _, t := range m.take() {
		t.free()
	}
}

func (m *dataMap) give(t *tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given = append(m.given, t)
}

func (m *dataMap) take() (given []*tensor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	given, m.given = m.given, nil
	return given
}

// A tensor is an unpacked tensor of the host.
type tensor struct {
	data        unsafe.Pointer // nil unless there are bytes to read
	size        C.size_t
	address     C.uintptr_t
	fill, evict C.struct_xpwc_callback
	release     C.struct_xpwc_callback
	identity    xpwc.Identity
	released    atomic.Bool // while another thread may settle the data map
}

// identityStrings keeps one string for the many tensors of a table that have the same.
type identityStrings struct {
	address *C.xpwc_const_char
	source  string
}

// newTensor copies what view's strings and digest point to.
func newTensor(view *C.struct_xpwc_tensor_view, shared *identityStrings, cache C.uintptr_t) *tensor {
	if view.source != shared.address {
		shared.address, shared.source = view.source, C.GoString(view.source)
	}
	t := &tensor{
		data:     view.data,
		size:     view.size,
		address:  view.address,
		fill:     C.struct_xpwc_callback{view.fill, view.context, cache},
		evict:    C.struct_xpwc_callback{view.evict, view.context, cache},
		release:  C.struct_xpwc_callback{view.release, view.context, cache},
		identity: xpwc.Identity{Source: shared.source, Stamp: C.GoString(view.stamp)},
	}
	if view.digest != nil {
		digest := *(*xpwc.Digest)(unsafe.Pointer(view.digest))
		t.identity.Digest = func() (xpwc.Digest, error) { return digest, nil }
	}
	return t
}

func (t *tensor) check(view *C.struct_xpwc_tensor_view) error {
	switch end := uintptr(t.address) + uintptr(t.size); {
	case bool(view.both):
		return invalid("data and fill are both set")
	case t.fill.function == 0 && t.data == nil && t.size > 0:
		return invalid("data is no address and fill is NULL, size is %d", t.size)
	case t.size > math.MaxInt-1<<20 || end < uintptr(t.address):
		return invalid("size is %d", t.size)
	}
	return nil
}

func (t *tensor) unpacked() xpwc.Tensor {
	u := xpwc.Tensor{Identity: t.identity, Release: t.free}
	if t.evict.function != 0 && t.fill.function == 0 { // what was computed is the session's
		u.Evict = func() { C.xpwc_call_release(t.evict, t.address, t.size) }
	}
	if t.fill.function == 0 {
		u.Data = unsafe.Slice((*byte)(t.data), t.size)
		return u
	}
	u.Size = int(t.size)
	u.Fill = func(dst []byte) error {
		status := C.xpwc_call_fill(t.fill, unsafe.Pointer(unsafe.SliceData(dst)), C.size_t(len(dst)))
		if status != C.XPWC_STATUS_OK {
			return callbackError{"fill", status}
		}
		return nil
	}
	return u
}

// free calls the host's release, once.
func (t *tensor) free() {
	if !t.released.Load() && t.release.function != 0 {
		C.xpwc_call_release(t.release, t.address, t.size)
	}
	t.released.Store(true)
}
