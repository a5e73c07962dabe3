package console_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/console"
)

func TestFiguresAreShort(t *testing.T) {
	for want, v := range map[string]float64{
		"0.00": 0.004, "0.25": 0.25, "9.99": 9.99, "10.0": 10, "123": 123.4, "12345": 12345,
	} {
		require.Equal(t, want, console.Digits(v))
	}
}
