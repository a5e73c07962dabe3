package xpwc

// A stock makes values of one kind, at first some together and then many. There may be a million of them: the garbage
// collector goes over those that lie together faster than it follows a pointer to each. They are freed together, too.
type stock[T any] struct {
	unused []T
	made   int
}

// The fewest and the most values that a stock makes together.
const (
	leastStock = 8
	mostStock  = 256
)

// take returns a zero value.
func (s *stock[T]) take() *T {
	if len(s.unused) == 0 {
		s.unused = make([]T, min(max(s.made, leastStock), mostStock))
		s.made += len(s.unused)
	}
	v := &s.unused[0]
	s.unused = s.unused[1:]
	return v
}
