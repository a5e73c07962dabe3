package registry

import (
	"context"
	"io"
)

// A counted reader reports how much is read, and ends with its context.
type counted struct {
	ctx   context.Context
	from  io.Reader
	count func(n int)
}

func (c *counted) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(b)
	c.count(n)
	return n, err
}
