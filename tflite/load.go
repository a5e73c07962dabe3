package tflite

import "xpwc/inference"

// Load opens a model and makes it ready to run, with its packed weights in the cache file, or in memory if that is
// empty or the model small (inference.Options.CacheFrom). The caller closes the Runner. Errors: those of [Open] and
// [inference.Load].
func Load(path, cacheFile string, o *inference.Options) (*inference.Runner, error) {
	m, err := Open(path, nil)
	if err != nil {
		return nil, err
	}
	return inference.Load(m, cacheFile, o)
}
