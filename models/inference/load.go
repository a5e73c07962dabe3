package inference

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models"
)

// DefaultCacheFrom is [Options.CacheFrom] where that is 0: 1 MiB. XNNPACK packs a smaller model in less time than a
// cache file takes to be made or opened. Set CacheFrom to 1 where many processes share such models, for the memory.
const DefaultCacheFrom = 1 << 20

// Options of [Load]; nil and the zero value mean the defaults.
type Options struct {
	// Instances is how many Runs can compute at the same time: 0 and 1 mean one. The packed weights are there once;
	// each instance has memory of its own for inputs, outputs and what is between them.
	Instances int

	// Threads is how many threads compute one Run. 0 and 1 mean one: the thread that calls Run. With more, all Runners
	// of the process that have the same number share one pool of threads. Leave it at 1 if several Runs compute at the
	// same time; more threads make a single Run faster on processors that are idle.
	Threads int

	// Cache has the packed weights, in place of a cache file that Load opens. It stays the caller's, who closes it
	// after the Runner.
	Cache *xpwc.Cache

	// CacheFrom is from how many bytes of weights on a model uses the cache file: 0 means [DefaultCacheFrom], and 1
	// means that every model does. A smaller one is packed into memory, as with no cache file; the file is neither read
	// nor made, and the logger of CacheOptions is given that. The bytes are of the packed weights, as
	// XNNPACK is given them: half precision is widened, for instance. Load decides it, for later Reloads too. With
	// Cache it has no effect.
	CacheFrom int64

	// CacheOptions are the cache file's options; nil means their defaults. Loads of one cache file in one process must
	// have the same (xpwc.ErrOtherOptions), except Logger and Progress. A file that cannot be used is an error only if
	// Strict is set: OrMemory is always set without it.
	CacheOptions *xpwc.Options
}

// ErrOptions: the options contradict each other.
var ErrOptions = xpwc.ErrOptions

// ErrStates: the model keeps states from one Run to the next, and is to have several instances, of which nobody knows
// which one a Run gets.
var ErrStates = errors.New("a model that keeps states has one instance; load it once for each sequence of Runs")

// Load makes a model ready to run, with its packed weights in the cache file. The file need not exist, see [xpwc.Open];
// a model of less than 1 MiB of weights does without, see Options.CacheFrom. If cacheFile is empty, the weights are
// packed into Options.Cache or, without one, into memory that nobody shares and that is gone with Close. A cache file
// never makes a model fail, unless its options are Strict: if it cannot be used or written to, what had to be packed is
// in private memory, Stats of [Runner.Cache] has the reason, and the logger is given an event.
//
// Load takes the model over: it is closed with the Runner, or when Load fails. Errors: as of [xpwc.Open], of the
// model and of XNNPACK, [models.ErrElement] if an input or an output has no type in Go, [ErrOptions], [ErrStates], and
// [xpwc.ErrSourceChanged] if the model was changed in place while it was packed: load it again.
func Load(m models.Model, cacheFile string, o *Options) (r *Runner, err error) {
	if o == nil {
		o = &Options{}
	}
	loaded := false
	defer func() { // also after a panic of the model's
		switch {
		case loaded:
		case r == nil:
			err = errors.Join(err, m.Close())
		default:
			r, err = nil, errors.Join(err, r.Close())
		}
	}()
	if cacheFile != "" && o.Cache == nil && o.doesWithout(m, cacheFile) {
		cacheFile = ""
	}
	if r, err = newRunner(cacheFile, *o); err != nil {
		return nil, err
	}
	err = r.Reload(m)
	loaded = err == nil
	return r, err
}

// doesWithout reports whether a model is too small for a cache file. If so, the logger gets an event.
func (o *Options) doesWithout(m models.Model, cacheFile string) bool {
	weights, threshold := m.WeightBytes(), cmp.Or(o.CacheFrom, DefaultCacheFrom)
	if weights >= threshold {
		return false
	}
	if opts := o.CacheOptions; opts != nil && opts.Logger != nil {
		opts.Logger.Info("a small model does without its cache file", slog.String("cache", cacheFile),
			slog.Int64("weights_bytes", weights), slog.Int64("cache_from", threshold))
	}
	return true
}

// newRunner makes a Runner without a model.
func newRunner(cacheFile string, o Options) (*Runner, error) {
	switch o.Instances, o.Threads = cmp.Or(o.Instances, 1), cmp.Or(o.Threads, 1); {
	case o.Instances < 0:
		return nil, fmt.Errorf("%w: %d instances", ErrOptions, o.Instances)
	case o.CacheFrom < 0:
		return nil, fmt.Errorf("%w: a cache file from %d bytes of weights on", ErrOptions, o.CacheFrom)
	case o.Cache != nil && cacheFile != "":
		return nil, fmt.Errorf("%w: both a cache and the cache file %s", ErrOptions, cacheFile)
	}
	r := &Runner{options: o, cache: o.Cache, turns: make(chan struct{}, o.Instances), ended: make(chan struct{})}
	if r.cache == nil {
		var err error
		if r.cache, err = instance.OpenCache(cacheFile, o.CacheOptions); err != nil {
			return nil, err
		}
	}
	for range o.Instances {
		r.turns <- struct{}{}
	}
	return r, nil
}
