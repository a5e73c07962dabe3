package main

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"xpwc"
)

// A dataMap is a session's view of the host's unpacked tensors: a callback or a table.
type dataMap struct {
	get     C.struct_xpwc_callback // or else the table is used
	changed C.struct_xpwc_callback
	table   map[string]*tensor
}

// A watch is an xpwc.Watch of the tensors with one source.
type watch struct {
	changed C.struct_xpwc_callback
	source  string
}

// Changed implements xpwc.Watch.
func (w watch) Changed() (bool, error) {
	source := C.CString(w.source)
	defer C.free(unsafe.Pointer(source))
	var changed C.int
	if status := C.xpwc_call_changed(w.changed, source, &changed); status != C.XPWC_STATUS_OK {
		return false, errors.New(callbackError{"changed", status}.Error()) // not the status: it counts as a change
	}
	return changed != 0, nil
}

// newDataMap copies the table. Only the contents of tensors are read later.
func newDataMap(get, changed C.struct_xpwc_callback, tensors *C.xpwc_const_tensor, n C.size_t) (*dataMap, error) {
	m := &dataMap{get: get, changed: changed, table: map[string]*tensor{}}
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

// Tensor implements xpwc.DataMap. The session releases the tensors that it returns.
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	t, err := m.table[name], error(nil)
	if m.get.function != 0 {
		t, err = m.ask(name)
	}
	switch {
	case err != nil:
		return xpwc.Tensor{}, err
	case t == nil:
		return xpwc.Tensor{}, xpwc.ErrUnknownTensor
	}
	u := t.unpacked()
	if m.changed.function != 0 {
		u.Identity.Watch = watch{m.changed, u.Identity.Source}
	}
	return u, nil
}

// ask calls the host's get. It releases an invalid tensor at once.
func (m *dataMap) ask(name string) (*tensor, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var view C.struct_xpwc_tensor_view
	switch status := C.xpwc_call_get(m.get, c, &view); status {
	case C.XPWC_STATUS_OK:
	case C.XPWC_STATUS_UNKNOWN_TENSOR:
		return nil, xpwc.ErrUnknownTensor
	default:
		return nil, callbackError{"data map", status}
	}
	t := newTensor(&view, &identityStrings{}, m.get.cache)
	if err := t.check(&view); err != nil {
		t.free()
		return nil, err
	}
	return t, nil
}

// A tensor is an unpacked tensor of the host.
type tensor struct {
	data        unsafe.Pointer // nil unless there are bytes to read
	size        C.size_t
	address     C.uintptr_t
	fill, evict C.struct_xpwc_callback
	release     C.struct_xpwc_callback
	identity    xpwc.Identity
}

// identityStrings shares one string among the tensors of a table with the same source.
type identityStrings struct {
	address *C.xpwc_const_char
	source  string
}

// newTensor copies the view's strings and digest.
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
		t.identity.DigestReadsNothing = true
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
	if t.evict.function != 0 && t.fill.function == 0 { // the session owns computed contents
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

// free calls the host's release.
func (t *tensor) free() {
	if t.release.function != 0 {
		C.xpwc_call_release(t.release, t.address, t.size)
	}
}
