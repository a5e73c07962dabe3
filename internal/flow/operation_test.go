package flow

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/internal/operators"
)

// The kernel of one shape would read beyond the elements of a smaller one.
func TestAShapeThatAnOperatorRefusesIsRefusedAgain(t *testing.T) {
	refused := errors.New("refused")
	short := func(shapes [][]int) operators.Kernel {
		if shapes[0][0] < 4 {
			fault.Check(refused)
		}
		return operators.Kernel{Shapes: shapes, Run: func(_, _ []Array) {}}
	}
	var m moved
	for _, length := range []int{4, 3, 3, 4, 3} {
		err := fault.Try(func() { m.kernel(short, []Array{{Shape: []int{length}}}) })
		if length < 4 {
			require.ErrorIs(t, err, refused)
		} else {
			require.NoError(t, err)
		}
	}
}
