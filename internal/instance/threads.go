package instance

import (
	"sync"

	"xpwc/xnnpack"
)

// A pool is a thread pool of this process, with the number of instances that compute on it. Instances that compute at
// the same time take turns, operator by operator: more pools than processors have would only take each other's time.
type pool struct {
	*xnnpack.Threadpool
	users int
}

// pools are by the number of threads that was asked for.
var pools = struct {
	sync.Mutex
	pools map[int]*pool
}{pools: map[int]*pool{}}

// threads returns the process' pool of n threads, which is started for the first user and ends when the last one has
// given it back.
func threads(n int) (p *xnnpack.Threadpool, giveBack func(), err error) {
	pools.Lock()
	defer pools.Unlock()
	shared := pools.pools[n]
	if shared == nil {
		started, err := xnnpack.NewThreadpool(n)
		if err != nil {
			return nil, nil, err
		}
		shared = &pool{Threadpool: started}
		pools.pools[n] = shared
	}
	shared.users++
	return shared.Threadpool, func() {
		pools.Lock()
		defer pools.Unlock()
		if shared.users--; shared.users == 0 {
			shared.Close()
			delete(pools.pools, n)
		}
	}, nil
}
