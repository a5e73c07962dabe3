package models

import (
	"errors"

	"xpwc"
	"xpwc/xnnpack"
)

// Pack makes sure that the cache has what a runtime of the subgraph looks up: it creates the runtime with a session
// of its own, and deletes both. The subgraph is that of a [Model], or of one of its stages: see [SubgraphsOf]. What
// is packed is on the disk after [xpwc.Cache.Save].
func Pack(cache *xpwc.Cache, data xpwc.DataMap, subgraph func(Loader) (*xnnpack.Subgraph, error)) (err error) {
	session, err := cache.NewSession(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	s, err := subgraph(session)
	if err != nil {
		return err
	}
	runtime, err := xnnpack.NewRuntime(s, &xnnpack.RuntimeOptions{WeightsCache: session})
	finalized := session.Finalize() // its error may explain why XNNPACK failed
	err = errors.Join(err, finalized, s.Delete())
	if runtime != nil {
		err = errors.Join(err, runtime.Delete())
	}
	return err
}
