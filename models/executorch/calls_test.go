//go:build cgo

package executorch

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// argumentsOfAnyKind are values of a method, and how many of them are tensors, which come first. The last is a list
// that has itself.
func argumentsOfAnyKind() (values []table, tensors int) {
	for _, element := range []ScalarType{Float, Long, Bool} {
		for _, sizes := range []shaped{{}, {1}, {3}, {2, 3}, {2, 3, 4}, {1, 2, 4, 4}} {
			for _, dynamic := range []byte{dynamismStatic, 1} {
				values = append(values, mtensor{dtype: element, sizes: sizes, dynamic: dynamic}.table())
			}
		}
	}
	tensors = len(values)
	first := int64(len(values))
	for _, n := range []int64{0, 1, -1, 2, 3, 6, 100, 1 << 40} {
		values = append(values, number(uint64(n), evalueInt))
	}
	for _, x := range []float64{0, 0.5, -1, math.NaN(), math.Inf(1)} {
		values = append(values, number(math.Float64bits(x), evalueDouble))
	}
	for _, list := range [][]int64{{}, {0}, {1}, {2}, {0, 1}, {1, 1}, {3, 3}, {5, 6}, {1, 2, 3}, {4, 4, 4, 4}} {
		for i := range list {
			list[i] += first
		}
		values = append(values, table{0: byte(evalueIntList), 1: table{0: list}})
	}
	values = append(values, table{0: byte(evalueNull), 1: table{}}, table{0: byte(evalueNull), 1: table{}},
		table{0: byte(evalueBool), 1: table{0: byte(1)}}, table{0: byte(evalueBool), 1: table{0: byte(0)}},
		table{0: byte(evalueString), 1: table{0: "none"}}, table{0: byte(evalueString), 1: table{0: "floor"}})
	for _, kind := range []byte{evalueTensorList, evalueOptionalTensorList} {
		own := int32(len(values))
		for _, list := range [][]int32{{}, {4}, {6, 7}, {8, 8}, {own + 4}} {
			values = append(values, table{0: kind, 1: table{0: list}})
		}
	}
	return values, tensors
}

// FuzzCalls makes a program of one call of an operator, with arguments that its exporter would not give: each byte
// chooses one. It is refused, or runs within its memory.
func FuzzCalls(f *testing.F) {
	names := slices.Sorted(maps.Keys(kernels))
	values, tensors := argumentsOfAnyKind()
	require.LessOrEqual(f, len(values), math.MaxUint8, "a byte chooses each")
	last := byte(len(values) - 1)
	for i := range names {
		f.Add(uint8(i), []byte{6, 40, 8})
		f.Add(uint8(i), []byte{last, 36, 0, 1, 1})
		f.Add(uint8(i), []byte{1, 50, 51, 36, 1, 1})
	}
	f.Fuzz(func(t *testing.T, operator uint8, choices []byte) {
		if len(choices) == 0 || len(choices) > 16 {
			return
		}
		m := mmethod{name: "forward", operators: []string{names[int(operator)%len(names)]}, values: values}
		var args []int32
		for i, choice := range choices {
			value := int32(choice) % int32(len(values))
			args = append(args, value)
			if int(value) < tensors && i < len(choices)-1 && !slices.Contains(m.inputs, value) {
				m.inputs = append(m.inputs, value)
			}
		}
		if result := args[len(args)-1]; int(result) < tensors {
			m.outputs = []int32{result}
		}
		m.instructions = []table{kernel(0, args...)}
		exercise(t, mprogram{methods: []mmethod{m}}.bytes())
	})
}
