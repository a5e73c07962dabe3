package executorch

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fault"
	"xpwc/internal/tests/testkit"
)

// degenerate are arguments that exporters do not write: dynamic tensors of no and of few dimensions, empty lists,
// numbers out of range.
func degenerate() []evalue {
	dynamic := func(sizes ...int) evalue {
		t := &tensor{dtype: Float, shape: sizes, dynamic: true}
		if len(sizes) == 0 {
			t.shape, t.bare = scalar(), true
		}
		for d := range sizes {
			t.order = append(t.order, d)
		}
		return evalue{kind: evalueTensor, tensor: t}
	}
	integer := func(n int64) evalue { return evalue{kind: evalueInt, whole: n} }
	const zero, one, minus, single, vector = 0, 1, 2, 5, 6
	return []evalue{zero: integer(0), one: integer(1), minus: integer(-1), 3: integer(1 << 40), 4: {kind: evalueNull},
		single: dynamic(), vector: dynamic(3), 7: dynamic(2, 3), 8: dynamic(1, 2, 4, 4),
		9: {kind: evalueIntList}, 10: {kind: evalueIntList, list: []int{zero}},
		11: {kind: evalueIntList, list: []int{minus, zero}}, 12: {kind: evalueIntList, list: []int{one, one}},
		13: {kind: evalueTensorList}, 14: {kind: evalueTensorList, list: []int{single, vector}},
		15: {kind: evalueDouble, number: 0.5}, 16: {kind: evalueDoubleList, numbers: []float64{1e300, 2}},
		17: {kind: evalueString, text: "none"}}
}

// plannerOf plans a method of these values alone.
func plannerOf(values []evalue) *planner {
	return &planner{source: &source{method: &method{values: degenerate()}}, method: &method{values: values},
		plan: &plan{values: make([]value, len(values))}}
}

func TestShapesOfArgumentsThatNoExporterWritesAreComputedOrRefused(t *testing.T) {
	r := testkit.Random(t)
	for name, rule := range shapeRules {
		for range 400 {
			values := degenerate()
			args := make([]int, 1+r.IntN(14))
			for i := range args {
				args[i] = r.IntN(len(values))
			}
			call := &invocation{planner: plannerOf(values), name: name, args: args}
			err := func() (err error) {
				require.NotPanics(t, func() { err = fault.Try(func() { rule(call) }) }, "%s of values %v", name, args)
				return err
			}()
			if err != nil && !slices.ContainsFunc([]error{ErrMalformed, ErrUnsupported, ErrShape},
				func(want error) bool { return errors.Is(err, want) }) {
				require.NoError(t, err, "%s of values %v", name, args)
			}
		}
	}
}
