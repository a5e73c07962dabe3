package instance

import (
	"errors"
	"time"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// A Backing is where the packed weights of a runtime are. It creates the runtime of an instance and measures the
// times. What it opens is closed with the instance.
type Backing func(e *Instance) error

// PackedInOpened is the cache that open opens, a file's or one in memory. It is closed with the instance.
func PackedInOpened(open func() (*xpwc.Cache, error)) Backing {
	return func(e *Instance) error {
		start := time.Now()
		cache, err := open()
		if err != nil {
			return err
		}
		e.Times.Open = time.Since(start)
		e.closers = append(e.closers, cache.Close)
		return PackedIn(cache)(e)
	}
}

// OpenCache opens the cache of a model that is loaded: in memory where its file cannot be used, unless the options are
// Strict. Nil options are the defaults.
func OpenCache(path string, o *xpwc.Options) (*xpwc.Cache, error) {
	var options xpwc.Options
	if o != nil {
		options = *o
	}
	options.OrMemory = options.OrMemory || !options.Strict
	return xpwc.Open(path, &options)
}

// PackedIn is a cache of the caller, which must stay open until the instance is closed.
func PackedIn(cache *xpwc.Cache) Backing {
	return func(e *Instance) error {
		e.Cache = cache
		return e.create(func(m models.Model) (*place, error) {
			session, err := cache.NewSession(m.DataMap())
			if err != nil {
				return nil, err
			}
			return &place{loader: session, provider: session, session: session}, nil
		})
	}
}

// PackedInHeap is XNNPACK's memory, without any cache.
func PackedInHeap(e *Instance) error { return PackedInProvider(nil, nil)(e) }

// PackedInHeapCache is XNNPACK's own cache.
func PackedInHeapCache(e *Instance) error {
	start := time.Now()
	cache, err := xnnpack.NewWeightsCache()
	if err != nil {
		return err
	}
	e.Times.Open = time.Since(start)
	e.closers = append(e.closers, func() error { cache.Close(); return nil })
	return PackedInProvider(cache, cache.Finalize)(e)
}

// PackedInProvider is a cache of the caller, which must stay open until the instance is closed; nil is none. finalize
// ends packing; it may be nil. Giving back the memory that packing has read is not measured: a program need not do it.
func PackedInProvider(c xnnpack.WeightsCache, finalize func() error) Backing {
	return func(e *Instance) error {
		l := models.NewMemory(e.Model.DataMap())
		e.closers = append(e.closers, l.Close)
		provider := c
		err := e.create(func(models.Model) (*place, error) { return &place{loader: l, provider: provider}, nil })
		provider = nil // what is created for other shapes is packed into memory of its own
		if finalize != nil {
			start := time.Now()
			err = errors.Join(err, finalize())
			e.Times.Finalize = time.Since(start)
		}
		l.Finalize()
		return err
	}
}
