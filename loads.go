package xpwc

import "time"

// A LoadOutcome says what became of the loading of a model.
type LoadOutcome string

// The outcomes of a load.
const (
	// LoadMapped: the cache had all packed weights that it was asked for.
	LoadMapped LoadOutcome = "mapped"
	// LoadPacked: XNNPACK packed some weights that the cache did not have, into the file or into private memory.
	LoadPacked LoadOutcome = "packed"
	// LoadFailed: Session.Finalize returned an error.
	LoadFailed LoadOutcome = "failed"
)

// LoadBounds are the bounds that Durations counts by.
var LoadBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 25 * time.Second, 50 * time.Second,
}

// Durations are a histogram of how long something took.
type Durations struct {
	Count int64
	Sum   time.Duration
	// Within has for each of LoadBounds how many took no longer than that.
	Within [len(LoadBounds)]int64
}

func (d *Durations) add(took time.Duration) {
	d.Count++
	d.Sum += took
	for i, bound := range LoadBounds {
		if took <= bound {
			d.Within[i]++
		}
	}
}

// countLoad counts the load that Finalize ends with an error or nil. The cache's lock is held.
func (s *Session) countLoad(err error) {
	outcome := LoadMapped
	switch {
	case err != nil:
		outcome = LoadFailed
	case s.added:
		outcome = LoadPacked
	}
	loads := s.cache.stats.Loads[outcome]
	loads.add(time.Since(s.begun))
	s.cache.stats.Loads[outcome] = loads
}
