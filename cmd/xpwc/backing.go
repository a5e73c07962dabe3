package main

import (
	"time"

	"xpwc"
	"xpwc/internal/bench/ideal"
	"xpwc/safetensors"
	"xpwc/xnnpack"
)

// A backing is where the packed weights of a runtime are. It creates the execution's runtime, and takes the times; what it opens is
// closed with the execution.
type backing func(e *execution) error

// packedIn is a cache file, or packedInHeap if there is no path.
func packedIn(path string, o *xpwc.Options) backing {
	if path == "" {
		return packedInHeap
	}
	return packedInCache(func() (*xpwc.Cache, error) { return xpwc.Open(path, o) }, nil)
}

// packedBeside is the cache in a safetensors file, whose seal may be trusted.
func packedBeside(f *safetensors.File, trust bool, o *xpwc.Options) backing {
	open := func() (*xpwc.Cache, error) { return f.OpenPacked(o) }
	if trust {
		return packedInCache(open, f.Trusted)
	}
	return packedInCache(open, nil)
}

// packedInCache takes the tensors from a data map, or the model's own.
func packedInCache(open func() (*xpwc.Cache, error), tensors func() (xpwc.DataMap, error)) backing {
	return func(e *execution) error {
		start := time.Now()
		cache, err := open()
		if err != nil {
			return err
		}
		e.times.open = time.Since(start)
		e.cache = cache
		e.closers = append(e.closers, cache.Close)
		start = time.Now()
		data := e.model.dataMap()
		if tensors != nil {
			if data, err = tensors(); err != nil {
				return err
			}
		}
		session, err := cache.NewSession(data)
		if err != nil {
			return err
		}
		e.closers = append(e.closers, session.Close)
		return e.create(session, session, start, func() error { _, err := session.Finalize(); return err })
	}
}

// packedInHeap is XNNPACK's memory, without any cache.
func packedInHeap(e *execution) error {
	return e.createUncached(nil, func() error { return nil })
}

// packedInHeapCache is XNNPACK's own cache.
func packedInHeapCache(e *execution) error {
	start := time.Now()
	cache, err := xnnpack.NewWeightsCache()
	if err != nil {
		return err
	}
	e.times.open = time.Since(start)
	e.closers = append(e.closers, func() error { cache.Delete(); return nil })
	return e.createUncached(cache, func() error { return cache.Finalize(false) })
}

// packedInIdeal is a cache that knows everything, or records it. It must stay open until the execution is closed.
func packedInIdeal(c *ideal.Cache) backing {
	return func(e *execution) error { return e.createUncached(c, func() error { return nil }) }
}

// createUncached creates the runtime from the model's own memory. That what packing has read is given back is not on the clock: nobody
// needs to.
func (e *execution) createUncached(cache xnnpack.WeightsCache, finalize func() error) error {
	start := time.Now()
	l := e.model.uncached()
	e.closers = append(e.closers, l.Close)
	err := e.create(l, cache, start, finalize)
	l.Finalize()
	return err
}
