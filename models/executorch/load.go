package executorch

import (
	"errors"

	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/xnnpack"
)

// Options of [Load]; nil and the zero value mean the defaults.
type Options struct {
	inference.Options
	// Data are the .ptd files that have constants of the program. LoadSource has DataSources in its place.
	Data        []string
	DataSources []models.Source
	// Method is the one to run; "" is the only one or, of several, "forward".
	Method string
}

// Load opens a program and makes one of its methods ready to run, with its packed weights in the cache file, or in
// memory if that is empty or the method small (inference.Options.CacheFrom). Other methods of the program are loaded by
// further calls; with the same cache file they share packed weights. The caller closes the Runner. Errors: as of
// [Open], [Program.Method], [Method.Runnable] and [inference.Load].
func Load(pte, cacheFile string, o *Options) (*inference.Runner, error) {
	xnnpack.InitializeSoon()
	if o == nil {
		o = &Options{}
	}
	p, err := Open(pte, o.Data...)
	if err != nil {
		return nil, err
	}
	return p.load(cacheFile, o)
}

// LoadSource loads a program that is not in a file of its own, as Load does.
func LoadSource(pte models.Source, cacheFile string, o *Options) (*inference.Runner, error) {
	xnnpack.InitializeSoon()
	if o == nil {
		o = &Options{}
	}
	p, err := OpenSource(pte, o.DataSources...)
	if err != nil {
		return nil, err
	}
	return p.load(cacheFile, o)
}

// load makes a method ready to run. It takes the program over.
func (p *Program) load(cacheFile string, o *Options) (*inference.Runner, error) {
	m, err := p.Method(o.Method)
	if err == nil {
		err = m.Runnable()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return inference.Load(m, cacheFile, &o.Options)
}
