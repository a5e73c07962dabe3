//go:build linux && cgo

package main

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// One thread may end a session while another finalizes it.
func TestASessionMayBeEndedWhileItIsFinalized(t *testing.T) {
	for range 100 {
		one := &tensor{}
		data := &dataMap{given: []*tensor{one}}
		var group sync.WaitGroup
		group.Go(data.settle)
		group.Go(func() {
			one.free() // as xpwc.Session.Close does
			data.end()
		})
		group.Wait()
		require.Empty(t, data.given)
	}
}
