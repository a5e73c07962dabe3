package xpwc

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostCode is the host's part of a tensor, each function of which calls before first.
type hostCode struct {
	before func(what string)
	source string
	size   int
}

func (h *hostCode) Changed() (bool, error) { h.before("Watch.Changed"); return false, nil }

func (h *hostCode) Tensor(name string) (Tensor, error) {
	content := contentOf(name, h.size)
	return Tensor{
		Size: len(content),
		Fill: func(dst []byte) error { h.before("Tensor.Fill"); copy(dst, content); return nil },
		Identity: Identity{
			Source: h.source,
			Digest: func() (Digest, error) { h.before("Identity.Digest"); return DigestOf(content), nil },
			Watch:  h,
		},
		Evict:   func() { h.before("Tensor.Evict") },
		Release: func() { h.before("Tensor.Release") },
	}, nil
}

// packOrFind makes the calls of a runtime's creation for a tensor of a host's, and returns what Finalize does.
func packOrFind(t *testing.T, c *Cache, h *hostCode, name string) (hit bool, err error) {
	t.Helper()
	s, err := c.NewSession(h)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	b, err := s.Load(name, Believe())
	if err != nil {
		return false, err
	}
	address := lookUp(s, 42, addressTo(b), 0)
	hit = address != missing
	if !hit {
		packed := packedFrom(contentOf(name, h.size))
		space := reserve(s, uint64(len(packed)))
		if space == nil {
			return false, s.Finalize()
		}
		copy(space, packed)
		insert(s, 42, addressTo(b), 0, addressTo(space), uint64(len(packed)))
	}
	return hit, s.Finalize()
}

// What the host computes may look at the cache, whenever it is called.
func TestWhatAHostComputesMayUseTheCache(t *testing.T) {
	for _, size := range []int{100, 8 << 10} {
		path := filepath.Join(t.TempDir(), "cache")
		for _, next := range []bool{false, true} {
			c := mustOpen(t, path, nil)
			called := map[string]bool{}
			h := &hostCode{size: size, before: func(what string) {
				called[what] = true
				_ = c.Stats()
				_ = c.Names()
			}}
			hit, err := packOrFind(t, c, h, "a")
			require.NoError(t, err)
			require.Equal(t, next, hit)
			require.True(t, called["Identity.Digest"])
			require.True(t, called["Watch.Changed"])
			require.NoError(t, c.Close())
		}
	}
}

// Who waits for the host's digest waits alone.
func TestAHostThatComputesHoldsUpNobodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	quick := &hostCode{size: 5000, before: func(string) {}}
	_, err := packOrFind(t, c, quick, "a")
	require.NoError(t, err)
	require.NoError(t, c.Save())

	begun, goOn, done := make(chan string), make(chan bool), make(chan error)
	slow := &hostCode{size: 5000, before: func(what string) { begun <- what; <-goOn }}
	go func() {
		hit, err := packOrFind(t, c, slow, "a") // without a stamp its digest is asked for
		if !hit {
			err = errors.Join(err, errors.New("it was not found"))
		}
		done <- err
	}()
	asked := map[string]int{}
	for waiting := true; waiting; {
		select {
		case what := <-begun:
			asked[what]++
			_ = c.Stats()
			hit, err := packOrFind(t, c, quick, "a")
			require.NoError(t, err)
			require.True(t, hit)
			_, err = packOrFind(t, c, quick, fmt.Sprint(what, asked[what]))
			require.NoError(t, err)
			require.NoError(t, c.Save())
			goOn <- true
		case err := <-done:
			require.NoError(t, err)
			waiting = false
		}
	}
	require.Positive(t, asked["Identity.Digest"])
	require.Positive(t, asked["Watch.Changed"])
	require.NoError(t, c.Close())
}

// A panic of the host's is an error: nothing of its session is kept that is not certain, and the cache goes on.
func TestAPanicOfTheHostIsAnErrorAndTheCacheGoesOn(t *testing.T) {
	for _, what := range []string{
		"Identity.Digest", "Watch.Changed", "Tensor.Fill", "Tensor.Evict", "Tensor.Release",
	} {
		for _, size := range []int{100, 8 << 10} {
			for call := 1; call <= 3; call++ {
				t.Run(fmt.Sprint(what, "/", size, "/", call), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "cache")
					for range 2 { // a first start, and a next one
						c := mustOpen(t, path, nil)
						calls := 0
						h := &hostCode{size: size, before: func(called string) {
							if called == what {
								if calls++; calls == call {
									panic("the host has a fault")
								}
							}
						}}
						_, err := packOrFind(t, c, h, "a")
						if calls >= call && what == "Watch.Changed" {
							require.ErrorIs(t, err, ErrSourceChanged)
						}
						if calls >= call && what == "Tensor.Fill" {
							require.ErrorContains(t, err, "panic in Tensor.Fill: the host has a fault")
						}
						_, err = packOrFind(t, c, &hostCode{size: size, before: func(string) {}}, "a")
						require.NoError(t, err)
						require.NoError(t, c.Save())
						require.NoError(t, c.Close())
					}
					c := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
					hit, err := packOrFind(t, c, &hostCode{size: size, before: func(string) {}}, "a")
					require.NoError(t, err)
					require.True(t, hit)
					require.NoError(t, c.Close())
				})
			}
		}
	}
}
