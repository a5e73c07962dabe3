// Package execution runs models for the tool and for measuring: with inputs that come from files or are made here, and
// with figures of its cost.
package execution

import (
	"xpwc"
	"xpwc/internal/instance"
	"xpwc/models/safetensors"
)

// PackedIn is a cache file, or [instance.PackedInHeap] if there is no path.
func PackedIn(path string, o *xpwc.Options) instance.Backing {
	if path == "" {
		return instance.PackedInHeap
	}
	return instance.PackedInOpened(func() (*xpwc.Cache, error) { return xpwc.Open(path, o) })
}

// PackedBeside is the cache in a safetensors file.
func PackedBeside(f *safetensors.File, o *xpwc.Options) instance.Backing {
	return instance.PackedInOpened(func() (*xpwc.Cache, error) { return f.OpenPacked(o) })
}
