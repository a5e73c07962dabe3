package instance

import (
	"errors"
	"time"

	"xpwc"
	"xpwc/xnnpack"
)

// A Backing is where the packed weights of a runtime are. It creates the runtime of an instance and measures the
// times. What it opens is closed with the instance.
type Backing func(e *Instance) error

// PackedInOpened is the cache that open opens, a file's or one in memory, as PackedIn has it. It is closed with the
// instance.
func PackedInOpened(open func() (*xpwc.Cache, error), data xpwc.DataMap) Backing {
	return func(e *Instance) error {
		start := time.Now()
		cache, err := open()
		if err != nil {
			return err
		}
		e.Times.Open = time.Since(start)
		e.closers = append(e.closers, cache.Close)
		return PackedIn(cache, data)(e)
	}
}

// PackedIn is a cache of the caller, which must stay open until the instance is closed. data gives the unpacked
// weights; nil is the model's own data map.
func PackedIn(cache *xpwc.Cache, data xpwc.DataMap) Backing {
	return func(e *Instance) error {
		e.Cache = cache
		tensors := data
		if tensors == nil {
			tensors = e.Model.DataMap()
		}
		return e.create(func() (place, error) {
			session, err := cache.NewSession(tensors)
			if err != nil {
				return place{}, err
			}
			e.sessions = append(e.sessions, session)
			e.closers = append(e.closers, session.Close)
			return place{session, session, session.Finalize}, nil
		})
	}
}

// PackedInHeap is XNNPACK's memory, without any cache.
func PackedInHeap(e *Instance) error {
	return e.createUncached(nil, func() error { return nil })
}

// PackedInHeapCache is XNNPACK's own cache.
func PackedInHeapCache(e *Instance) error {
	start := time.Now()
	cache, err := xnnpack.NewWeightsCache()
	if err != nil {
		return err
	}
	e.Times.Open = time.Since(start)
	e.closers = append(e.closers, func() error { cache.Delete(); return nil })
	return e.createUncached(cache, func() error { return cache.Finalize(false) })
}

// PackedInProvider is a cache of the caller, which must stay open until the instance is closed. finalize ends packing;
// it may be nil.
func PackedInProvider(c xnnpack.WeightsCache, finalize func() error) Backing {
	if finalize == nil {
		finalize = func() error { return nil }
	}
	return func(e *Instance) error { return e.createUncached(c, finalize) }
}

// createUncached creates the runtime from the model's own memory. Giving back the memory that packing has read is not
// measured: a program need not do it.
func (e *Instance) createUncached(cache xnnpack.WeightsCache, finalize func() error) error {
	start := time.Now()
	l := e.Model.NewLoader()
	e.closers = append(e.closers, l.Close)
	e.Times.Load = time.Since(start)
	err := e.create(func() (place, error) { return place{l, cache, nil}, nil })
	start = time.Now()
	err = errors.Join(err, finalize())
	e.Times.Finalize = time.Since(start)
	l.Finalize()
	return err
}
