package events

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// hostCode is the host's part of a tensor, each function of which calls before first.
type hostCode struct {
	hook   func(function string)
	source string
	size   int
}

func (h *hostCode) Changed() (bool, error) { h.hook("Watch.Changed"); return false, nil }

func (h *hostCode) Tensor(name string) (xpwc.Tensor, error) {
	content := harness.Content(name, h.size)
	return xpwc.Tensor{
		Size: len(content),
		Fill: func(dst []byte) error { h.hook("Tensor.Fill"); copy(dst, content); return nil },
		Identity: xpwc.Identity{
			Source: h.source,
			Digest: func() (xpwc.Digest, error) { h.hook("Identity.Digest"); return xpwc.DigestOf(content), nil },
			Watch:  h,
		},
		Evict:   func() { h.hook("Tensor.Evict") },
		Release: func() { h.hook("Tensor.Release") },
	}, nil
}

// packOrFind makes the calls of a runtime's creation for a tensor of a host's, and returns what Finalize does.
func packOrFind(t *testing.T, c *xpwc.Cache, h *hostCode, name string) (hit bool, err error) {
	t.Helper()
	s, err := c.NewSession(h)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	b, err := s.Load(name, xpwc.Believe())
	if err != nil {
		return false, err
	}
	address := harness.LookUp(s, 42, harness.Address(b), 0)
	hit = address != harness.NotFound
	if !hit {
		packed := harness.PackedFrom(harness.Content(name, h.size))
		space := harness.Reserve(s, uint64(len(packed)))
		if space == nil {
			return false, s.Finalize()
		}
		copy(space, packed)
		harness.Insert(s, 42, harness.Address(b), 0, harness.Address(space), uint64(len(packed)))
	}
	return hit, s.Finalize()
}

// What the host computes may look at the cache, whenever it is called.
func TestHostCodeMayUseTheCache(t *testing.T) {
	for _, size := range []int{100, 8 << 10} {
		path := harness.Path(t)
		for _, next := range []bool{false, true} {
			c := harness.Open(t, path, nil)
			called := map[string]bool{}
			h := &hostCode{size: size, hook: func(function string) {
				called[function] = true
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

// A session that waits for the host's digest does not block other sessions.
func TestHostCodeDoesNotBlockOtherSessions(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	quick := &hostCode{size: 5000, hook: func(string) {}}
	_, err := packOrFind(t, c, quick, "a")
	require.NoError(t, err)
	require.NoError(t, c.Save())

	begun, goOn, done := make(chan string), make(chan bool), make(chan error)
	slow := &hostCode{size: 5000, hook: func(function string) { begun <- function; <-goOn }}
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
		case function := <-begun:
			asked[function]++
			_ = c.Stats()
			hit, err := packOrFind(t, c, quick, "a")
			require.NoError(t, err)
			require.True(t, hit)
			_, err = packOrFind(t, c, quick, fmt.Sprint(function, asked[function]))
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
func TestAPanicOfTheHostIsAnErrorOfItsSession(t *testing.T) {
	for _, function := range []string{
		"Identity.Digest", "Watch.Changed", "Tensor.Fill", "Tensor.Evict", "Tensor.Release",
	} {
		for _, size := range []int{100, 8 << 10} {
			for call := 1; call <= 3; call++ {
				t.Run(fmt.Sprint(function, "/", size, "/", call), func(t *testing.T) {
					path := harness.Path(t)
					for range 2 { // a first start, and a next one
						c := harness.Open(t, path, nil)
						calls := 0
						h := &hostCode{size: size, hook: func(called string) {
							if called == function {
								if calls++; calls == call {
									panic("the host has a fault")
								}
							}
						}}
						_, err := packOrFind(t, c, h, "a")
						if calls >= call && function == "Watch.Changed" {
							require.ErrorIs(t, err, xpwc.ErrSourceChanged)
						}
						if calls >= call && function == "Tensor.Fill" {
							require.ErrorContains(t, err, "panic in Tensor.Fill: the host has a fault")
						}
						_, err = packOrFind(t, c, &hostCode{size: size, hook: func(string) {}}, "a")
						require.NoError(t, err)
						require.NoError(t, c.Save())
						require.NoError(t, c.Close())
					}
					c := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
					hit, err := packOrFind(t, c, &hostCode{size: size, hook: func(string) {}}, "a")
					require.NoError(t, err)
					require.True(t, hit)
					require.NoError(t, c.Close())
				})
			}
		}
	}
}

func TestAPanicOfTheProgressFunctionIsHarmless(t *testing.T) {
	var l harness.Listener
	o := l.Options()
	o.Progress = func(xpwc.Progress) { panic("x") }
	c := harness.Open(t, filepath.Join(t.TempDir(), "c"), o)
	s := harness.NewSession(t, c, map[string][]byte{"w": harness.Content("w", 100)})
	b, _ := s.Load("w", xpwc.Eager())
	space := harness.Reserve(s, 100)     // blind: scratch
	var address = harness.Address(space) // as xpwcLookUpOrInsert does
	func() {
		defer func() { recover() }()
		address = harness.Insert(s, 7, harness.Address(b), 0, harness.Address(space), 100)
	}()
	harness.EntryBytes(t, s, address, 100)
	require.Equal(t, []string{"the cache goes on after an error"}, l.Messages(c))
	require.NoError(t, s.Finalize())
	require.ErrorContains(t, c.Stats().LastError, "panic in Options.Progress: x")
}

// A runtime whose creation failed has its reason in Finalize's error.
func TestFinalizeReturnsTheReasonForAFailedCreation(t *testing.T) {
	full := errors.New("the source's disk is gone")
	c := harness.Open(t, "", nil)
	s, err := c.NewSession(harness.TensorMap{"w": {Size: 100, Fill: func([]byte) error { return full }}})
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 7, harness.Load(t, s, "w"), 0))
	require.Nil(t, harness.Reserve(s, 100))
	for range 2 {
		require.ErrorIs(t, s.Finalize(), full)
	}
	require.Empty(t, s.Names())
}
