package main

// #include "host.h"
import "C"

import (
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unsafe"

	"xpwc"
)

// A session is the object of a session handle.
type session struct {
	*xpwc.Session
	cache *cache
	table C.size_t // number of tensors in the host's table
	ended atomic.Bool
}

// collectedFor is the number of tensors whose garbage is returned to the system at once.
const collectedFor = 1 << 14

//export xpwcSessionBegin
func xpwcSessionBegin(cacheHandle C.xpwc_cache, hasData, valid C.bool, get, changed, context C.uintptr_t,
	tensors *C.xpwc_const_tensor, n C.size_t, handle *C.xpwc_session,
) C.xpwc_status {
	return withCache(cacheHandle, func(c *cache) error {
		switch {
		case handle == nil:
			return invalid("xpwc_session_begin: session is NULL")
		case !bool(valid):
			return invalid("xpwc_session_begin: data.struct_size is wrong, or an unknown member is set")
		}
		var data xpwc.DataMap
		if hasData {
			ask := C.struct_xpwc_callback{get, context, c.number}
			watch := C.struct_xpwc_callback{changed, context, c.number}
			m, err := newDataMap(ask, watch, tensors, n)
			if err != nil {
				return fmt.Errorf("xpwc_session_begin: %w", err)
			}
			data = m
		}
		begun, err := c.NewSession(data)
		if err != nil {
			return err
		}
		s := &session{Session: begun, cache: c, table: n}
		handle.id = newHandle(s)
		return nil
	})
}

func (s *session) ofCache() *cache { return s.cache }

//export xpwcSessionLoad
func xpwcSessionLoad(handle C.xpwc_session, name *C.xpwc_const_char, valid C.bool, flags C.uint32_t,
	packingValid C.bool, packed *C.struct_xpwc_packing, data *C.xpwc_const_pointer, size *C.size_t,
) C.xpwc_status {
	return withSession(handle, func(s *session) error {
		const knownFlags = C.XPWC_LOAD_BELIEVE<<1 - 1
		switch {
		case name == nil || data == nil:
			return invalid("xpwc_session_load: name or data is NULL")
		case !bool(valid):
			return invalid("xpwc_session_load: options.struct_size is wrong, or an unknown member is set")
		case flags&^knownFlags != 0:
			return invalid("xpwc_session_load: unknown flags %#x", flags&^knownFlags)
		case !bool(packingValid):
			return invalid("xpwc_session_load: packing.struct_size is wrong, or an unknown member is set")
		}
		var options []xpwc.LoadOption
		for _, o := range []struct {
			flag   C.uint32_t
			option xpwc.LoadOption
		}{
			{C.XPWC_LOAD_EAGER, xpwc.Eager()},
			{C.XPWC_LOAD_PACK_ONLY, xpwc.PackOnly()},
			{C.XPWC_LOAD_RETAIN, xpwc.Retain()},
			{C.XPWC_LOAD_COMPARE, xpwc.Compare()},
			{C.XPWC_LOAD_BELIEVE, xpwc.Believe()},
		} {
			if flags&o.flag != 0 {
				options = append(options, o.option)
			}
		}
		if packed != nil {
			id, err := packingOf(packed)
			if err != nil {
				return fmt.Errorf("xpwc_session_load: tensor %q: packing: %w", C.GoString(name), err)
			}
			options = append(options, xpwc.PackedAs(id))
		}
		content, err := s.Load(C.GoString(name), options...)
		if err != nil {
			return err
		}
		*data = C.xpwc_const_pointer(unsafe.Pointer(unsafe.SliceData(content)))
		if size != nil {
			*size = C.size_t(len(content))
		}
		return nil
	})
}

//export xpwcSessionAlias
func xpwcSessionAlias(handle C.xpwc_session, alias unsafe.Pointer, size C.size_t, original unsafe.Pointer,
	conversion *C.xpwc_const_char,
) C.xpwc_status {
	return withSession(handle, func(s *session) error {
		if alias == nil || original == nil {
			return invalid("xpwc_session_alias: alias or original is NULL")
		}
		content, err := hostMemory[byte](alias, size, math.MaxInt, "xpwc_session_alias: alias")
		if err != nil {
			return err
		}
		return s.Alias(content, unsafe.Slice((*byte)(original), 1), C.GoString(conversion))
	})
}

//export xpwcSessionProvider
func xpwcSessionProvider(handle C.xpwc_session, provider **C.struct_xnn_weights_cache_provider) C.xpwc_status {
	return withSession(handle, func(s *session) error {
		if provider == nil {
			return invalid("xpwc_session_provider: provider is NULL")
		}
		p := (*C.struct_xnn_weights_cache_provider)(s.Provider())
		if p == nil || s.ended.Load() { // by another thread, just now
			return fmt.Errorf("session: %w", errInvalidHandle)
		}
		*provider = p
		return nil
	})
}

//export xpwcSessionFinalize
func xpwcSessionFinalize(handle C.xpwc_session) C.xpwc_status {
	return withSession(handle, func(s *session) error {
		err := s.Finalize()
		if s.table >= collectedFor {
			go debug.FreeOSMemory()
		}
		return err
	})
}

//export xpwcSessionNames
func xpwcSessionNames(handle C.xpwc_session, names *C.xpwc_strings, count *C.size_t) C.xpwc_status {
	return withSession(handle, func(s *session) error {
		return returnNames("xpwc_session_names", s.Names, names, count)
	})
}

//export xpwcSessionCheck
func xpwcSessionCheck(handle C.xpwc_session) C.xpwc_status {
	return withSession(handle, func(s *session) error { return s.Err() })
}

//export xpwcSessionExplain
func xpwcSessionExplain(handle C.xpwc_session, text *C.char, capacity C.size_t) C.xpwc_status {
	return withSession(handle, func(s *session) error {
		if text == nil || capacity == 0 {
			return invalid("xpwc_session_explain: text is NULL, or capacity is 0")
		}
		e := s.Explain()
		sentences := e.String()
		sentences = strings.ToValidUTF8(sentences[:min(len(sentences), int(min(capacity, math.MaxInt32))-1)], "")
		out := unsafe.Slice((*byte)(unsafe.Pointer(text)), len(sentences)+1)
		out[copy(out, sentences)] = 0
		return nil
	})
}

//export xpwcSessionEnd
func xpwcSessionEnd(handle C.xpwc_session) C.xpwc_status {
	s, err := resolve[*session]("session", handle.id)
	if err != nil {
		return call(nil, func() error { return err })
	}
	defer dropHandle(handle.id)
	return call(s.cache.host, func() error {
		if s.ended.Swap(true) {
			return fmt.Errorf("session: %w", errInvalidHandle) // another thread is ending it
		}
		return s.Close()
	})
}
