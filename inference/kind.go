package inference

import (
	"fmt"
	"slices"

	"xpwc/models"
	"xpwc/xnnpack"
)

// A kind is how Go has the numbers of an element.
type kind struct {
	slice  string // its type
	length func(input any) (n int, ok bool)
	// give copies an input, and converts it if it is widened to single precision.
	give func(to *xnnpack.Buffer, input any, widened bool)
	take func(from *xnnpack.Buffer, n int) any
}

var kinds = map[models.Element]kind{
	models.Float32:  numbers[float32](),
	models.Float64:  numbers[float64](),
	models.Float16:  numbers[uint16](),
	models.BFloat16: numbers[uint16](),
	models.Int8:     numbers[int8](),
	models.Uint8:    numbers[uint8](),
	models.Int16:    numbers[int16](),
	models.Int32:    numbers[int32](),
	models.Int64:    numbers[int64](),
	models.Bool:     booleans(),
}

func numbers[T xnnpack.Number]() kind {
	return kind{
		slice:  fmt.Sprintf("%T", []T{}),
		length: length[T],
		give: func(to *xnnpack.Buffer, input any, widened bool) {
			if !widened {
				copy(xnnpack.Numbers[T](to), input.([]T))
				return
			}
			floats := to.Float32s()
			for i, n := range input.([]T) {
				floats[i] = float32(n)
			}
		},
		take: func(from *xnnpack.Buffer, n int) any { return slices.Clone(xnnpack.Numbers[T](from)[:n]) },
	}
}

// booleans are a byte each where they are not widened: XNNPACK has none.
func booleans() kind {
	return kind{
		slice:  "[]bool",
		length: length[bool],
		give: func(to *xnnpack.Buffer, input any, widened bool) {
			if !widened {
				for i, set := range input.([]bool) {
					to.Bytes()[i] = 0
					if set {
						to.Bytes()[i] = 1
					}
				}
				return
			}
			floats := to.Float32s()
			for i, set := range input.([]bool) {
				floats[i] = 0
				if set {
					floats[i] = 1
				}
			}
		},
		take: func(from *xnnpack.Buffer, n int) any {
			out := make([]bool, n)
			for i := range out {
				out[i] = from.Bytes()[i] != 0
			}
			return out
		},
	}
}

func length[T any](input any) (n int, ok bool) {
	s, ok := input.([]T)
	return len(s), ok
}
