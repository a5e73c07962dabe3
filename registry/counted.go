package registry

import "io"

// A counted reader reports how much of a transfer is read.
type counted struct {
	src         io.Reader
	done, total int64
	progress    func(done, total int64) // nil for nobody
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.src.Read(b)
	if c.done += int64(n); c.progress != nil {
		c.progress(c.done, c.total)
	}
	return n, err
}
