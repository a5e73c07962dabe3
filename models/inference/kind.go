package inference

import (
	"reflect"

	"xpwc/models"
	"xpwc/xnnpack"
)

// A kind is how Go has the numbers of an element.
type kind struct {
	slice reflect.Type
	// give copies an input, and converts it if it is widened to single precision.
	give func(dst *xnnpack.Buffer, input any, widened bool)
	// take copies n elements of an output to where into has room for them, or else into new memory.
	take func(src *xnnpack.Buffer, n int, dst any) any
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
		slice: reflect.TypeFor[[]T](),
		give: func(dst *xnnpack.Buffer, input any, widened bool) {
			if !widened {
				copy(xnnpack.Numbers[T](dst), input.([]T))
				return
			}
			floats := dst.Float32s()
			for i, n := range input.([]T) {
				floats[i] = float32(n)
			}
		},
		take: func(src *xnnpack.Buffer, n int, dst any) any {
			values, out := room[T](dst, n)
			copy(values, xnnpack.Numbers[T](src))
			return out
		},
	}
}

// booleans are a byte each, 0 or 1: XNNPACK has none.
func booleans() kind {
	bytes := numbers[uint8]()
	return kind{
		slice: reflect.TypeFor[[]bool](),
		give: func(dst *xnnpack.Buffer, input any, widened bool) {
			set := make([]uint8, len(input.([]bool)))
			for i, b := range input.([]bool) {
				if b {
					set[i] = 1
				}
			}
			bytes.give(dst, set, widened)
		},
		take: func(src *xnnpack.Buffer, n int, dst any) any {
			values, out := room[bool](dst, n)
			for i, b := range src.Bytes()[:n] {
				values[i] = b != 0
			}
			return out
		},
	}
}

// room returns a slice of n elements, that of into if it has so many, and the same as an any.
func room[T any](dst any, n int) ([]T, any) {
	values, ok := dst.([]T)
	switch {
	case !ok || cap(values) < n:
		values = make([]T, n)
	case len(values) == n:
		return values, dst // as it is: an any of a slice takes memory
	}
	return values[:n], values[:n]
}
