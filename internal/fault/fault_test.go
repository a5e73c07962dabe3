package fault_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
)

func TestTheFirstErrorEndsTheWork(t *testing.T) {
	first := errors.New("first")
	steps := 0
	err := fault.Try(func() {
		fault.Check(nil)
		steps += fault.Value(1, nil)
		steps += fault.Value(1, first)
		fault.Check(errors.New("second"))
	})
	require.Equal(t, first, err)
	require.Equal(t, 1, steps)
	require.NoError(t, fault.Try(func() {}))
}

func TestOtherPanicsGoOn(t *testing.T) {
	require.PanicsWithValue(t, "other", func() { _ = fault.Try(func() { panic("other") }) })
}

func TestAnErrorSaysInWhichPartItWas(t *testing.T) {
	wrong := errors.New("wrong")
	err := fault.Try(func() { fault.Wrap(func() { fault.Check(wrong) }, "part %d", 1) })
	require.EqualError(t, err, "part 1: wrong")
	require.ErrorIs(t, err, wrong)
}
