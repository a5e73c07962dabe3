package tflite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBoxesInOtherShapesOrTypesAreRefused(t *testing.T) {
	suppression := func() blueprint {
		return blueprint{
			tensors: []blueTensor{floats("boxes", []int{5, 4}), floats("scores", []int{5}),
				int32Tensor("most", []int{}, 3), floats("overlap", []int{}, 0.5), floats("least", []int{}, 0.1),
				typed(floats("selected", nil), typeInt32), typed(floats("count", nil), typeInt32)},
			ops:    []blueOp{{code: "NON_MAX_SUPPRESSION_V4", inputs: []int{0, 1, 2, 3, 4}, outputs: []int{5, 6}}},
			inputs: []int{0, 1}, outputs: []int{5, 6},
		}
	}
	m := suppression()
	openModel(t, save(t, m.bytes()))
	for name, c := range map[string]struct {
		change func(m *blueprint)
		kind   error
	}{
		"corners":       {func(m *blueprint) { m.tensors[0].shape = []int{5, 3} }, ErrMalformed},
		"scores":        {func(m *blueprint) { m.tensors[1].shape = []int{4} }, ErrMalformed},
		"none":          {func(m *blueprint) { m.tensors[2] = int32Tensor("most", []int{}, 0) }, ErrMalformed},
		"an input less": {func(m *blueprint) { m.ops[0].code = "NON_MAX_SUPPRESSION_V5" }, ErrMalformed},
		"many overlaps": {func(m *blueprint) { m.tensors[3] = floats("overlap", []int{2}, 1, 1) }, ErrMalformed},
		"an output":     {func(m *blueprint) { m.tensors[5].dtype = typeFloat32 }, ErrMalformed},
		"integers":      {func(m *blueprint) { m.tensors[1].dtype = typeInt32 }, ErrUnsupported},
		"how many":      {func(m *blueprint) { m.tensors[2].data, m.inputs = nil, []int{0, 1, 2} }, ErrUnsupported},
	} {
		m := suppression()
		c.change(&m)
		_, err := Open(save(t, m.bytes()), nil)
		require.ErrorIs(t, err, c.kind, name)
	}
}

func TestAnglesOfIntegersAreRefused(t *testing.T) {
	m := single(blueOp{code: "ATAN2", inputs: []int{0, 0}}, []int{4})
	m.tensors[0].dtype, m.tensors[1].dtype = typeInt32, typeInt32
	_, err := Open(save(t, m.bytes()), nil)
	require.ErrorIs(t, err, ErrUnsupported)
}
