// Package execution runs models for the tool and for measuring: with inputs that come from files or are made here, and
// with figures of what that took.
package execution

import (
	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/safetensors"
)

// An Execution is an instance of a model, which knows how files have its inputs and outputs.
type Execution struct {
	*instance.Instance
	InputElements  []*Element // what Give takes
	OutputElements []*Element // what Output returns
}

// Load creates a runtime of the model, with its packed weights where the backing has them; see [instance.New].
func Load(m models.Model, b instance.Backing, threads int) (*Execution, error) {
	i, err := instance.New(m, b, threads)
	if err != nil {
		return nil, err
	}
	return &Execution{i, elementsOf(m.Inputs()), elementsOf(m.Outputs())}, nil
}

// PackedIn is a cache file, or [instance.PackedInHeap] if there is no path.
func PackedIn(path string, o *xpwc.Options) instance.Backing {
	if path == "" {
		return instance.PackedInHeap
	}
	return instance.PackedInOpened(func() (*xpwc.Cache, error) { return xpwc.Open(path, o) })
}

// PackedBeside is the cache in a safetensors file, whose seal may be trusted.
func PackedBeside(f *safetensors.File, o *xpwc.Options) instance.Backing {
	return instance.PackedInOpened(func() (*xpwc.Cache, error) { return f.OpenPacked(o) })
}
