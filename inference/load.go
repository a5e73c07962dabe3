package inference

import (
	"errors"
	"runtime"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models"
)

// Options of [Load]; nil and the zero value mean the defaults.
type Options struct {
	// Threads is how many threads compute a Run, the caller's included: 0 for as many as Go uses,
	// [runtime.GOMAXPROCS], and 1 for the caller's alone.
	Threads int

	// Cache has the options of the cache; nil means its defaults. Loads of one cache file in one process must have the
	// same (xpwc.ErrOtherOptions), but for Logger and Progress.
	Cache *xpwc.Options

	// DataMap gives the constants in place of the model's own data map, under the same names and in the same sizes;
	// nil means the model's own. It must be usable until the Runner is closed, which does not close it.
	DataMap xpwc.DataMap
}

// Load makes a model ready to run, with its packed weights in the cache file. The file need not exist, see [xpwc.Open];
// if it is empty, the weights are packed into memory that nobody shares and that is gone with Close. A file that cannot
// be written to is no error: what had to be packed is in private memory then, and Stats of [Runner.Cache] says why.
//
// Load takes the model over: it is closed with the Runner, or when Load fails. Errors: those of [xpwc.Open], of the
// model and of XNNPACK, [models.ErrElement] if an input or an output has no type in Go, and [xpwc.ErrSourceChanged] if
// the model was changed in place while it was packed: load it again.
func Load(m models.Model, cacheFile string, o *Options) (*Runner, error) {
	if o == nil {
		o = &Options{}
	}
	r, err := load(m, cacheFile, o)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return r, nil
}

func load(m models.Model, cacheFile string, o *Options) (*Runner, error) {
	threads := o.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	open := func() (*xpwc.Cache, error) { return xpwc.Open(cacheFile, o.Cache) }
	i, err := instance.New(m, instance.PackedIn(open, o.DataMap), threads)
	if err != nil {
		return nil, err
	}
	if err := i.Prepare(); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return &Runner{instance: i, model: m, cache: i.Cache, inputs: m.Inputs(), outputs: m.Outputs()}, nil
}
