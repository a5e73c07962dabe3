package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"oras.land/oras-go/v2/registry/remote/retry"
)

// DefaultSilence is for how long a registry may be silent if Options.Silence is zero.
const DefaultSilence = time.Minute

// transport returns what makes the requests of Options without a Transport: http.DefaultTransport, but a connection on
// which next to nothing moves for so long, in either direction, is closed. It is without HTTP/2, in which one
// connection has many requests and a server's pings are answered: writes to it show nothing of a request.
func transport(silence time.Duration) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig != nil { // that of a transport which was in use offers HTTP/2
		t.TLSClientConfig.NextProtos = nil
	}
	dialer := &net.Dialer{Timeout: min(silence, 30*time.Second), KeepAlive: 30 * time.Second}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		m := &moving{Conn: c, silence: silence}
		m.putOff()
		return m, nil
	}
	return t
}

// leastMoved is how many bytes a registry sends in the time for which it may be silent, if it sends at all: some now
// and then are no progress.
const leastMoved = 4 << 10

// A moving connection has a deadline that is put off when a request is written, and when enough was read.
type moving struct {
	net.Conn
	silence time.Duration
	read    int // since the deadline was put off; of the one goroutine that reads
}

func (m *moving) putOff() {
	_ = m.SetDeadline(time.Now().Add(m.silence)) // a connection that takes none fails later
}

func (m *moving) Read(b []byte) (n int, err error) {
	n, err = m.Conn.Read(b)
	if m.read += n; m.read >= leastMoved {
		m.read = 0
		m.putOff()
	}
	return n, err
}

func (m *moving) Write(b []byte) (int, error) {
	m.putOff()
	return m.Conn.Write(b)
}

// retrying has a request made again that the registry was too busy for, or whose connection broke. A registry that was
// silent has been given its time.
func retrying(base http.RoundTripper) http.RoundTripper {
	policy := *retry.DefaultPolicy.(*retry.GenericPolicy)
	policy.Retryable = func(r *http.Response, err error) (bool, error) {
		if isSilence(err) {
			return false, err
		}
		return retry.DefaultPredicate(r, err)
	}
	t := retry.NewTransport(base)
	t.Policy = func() retry.Policy { return &policy }
	return t
}

// isSilence reports whether an error is that nothing moved on a connection for its time.
func isSilence(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Timeout()
}

// pause waits for a random time, which is longer than it takes others to replace a tag if they take as long as this
// process did.
func pause(ctx context.Context, took time.Duration) error {
	minWait := 2*took + 50*time.Millisecond
	t := time.NewTimer(minWait + time.Duration(rand.Int64N(int64(2*minWait))))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
