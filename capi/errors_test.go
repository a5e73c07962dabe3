//go:build linux && cgo

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessagesSpeakOfTheCNames(t *testing.T) {
	t.Parallel()
	for _, s := range statuses {
		text := hostText(s.err.Error())
		require.NotRegexp(t, `Options\.|NewSession|Eager|Finalize|Session\.|Cache\.|PackedAs|Close\b`, text)
		require.Equal(t, text, hostText(text), "a line of the log goes through it twice")
	}
}
