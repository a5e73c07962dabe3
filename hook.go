package xpwc

import (
	"xpwc/internal/hook"
	"xpwc/internal/store"
	"xpwc/internal/writer"
)

// The tests of the whole are in packages of their own.
func init() {
	hook.LookUp = func(s any, seed uint32, kernel, bias uintptr) uintptr {
		return s.(*Session).lookUp(lookUpKey{seed, kernel, bias, 0})
	}
	hook.Reserve = func(s any, size uint64) []byte { return s.(*Session).reserve(size) }
	hook.Insert = func(s any, seed uint32, kernel, bias, address uintptr, size uint64) uintptr {
		return s.(*Session).insert(lookUpKey{seed, kernel, bias, 0}, address, size)
	}
	hook.Alias = func(s any, duplicate, original uintptr) { s.(*Session).alias(duplicate, original) }
	hook.Open = func(path string, o any, f store.Files, shared bool) (any, error) {
		if shared {
			return openPlace(place{path: path}, o.(*Options).withDefaults(), f, nil)
		}
		return newHandle(place{path: path}, o.(*Options).withDefaults(), f, nil)
	}
	hook.Writer = func(c any) *writer.Writer { return c.(*Cache).writer }
	hook.User = func(s any) *writer.User { return s.(*Session).user }
	hook.AwaitEvents = func(c any) { c.(*Cache).events.wait() }
}
