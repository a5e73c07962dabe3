package operators

import (
	"xpwc/internal/mapped"
	"xpwc/models"
)

// number is an element that Go computes with as it is.
type number interface {
	int8 | uint8 | int16 | int32 | int64 | float32 | float64
}

// inputOf returns the elements of an array for reading: a copy if its memory is not aligned.
func inputOf[T mapped.Number](a Array) []T {
	in, ok := mapped.Numbers[T](a.Data)
	if !ok {
		in, _ = mapped.Numbers[T](alignedCopy(a.Data))
	}
	return in
}

// outputOf returns the elements of an array for writing. They are in the array once done has run.
func outputOf[T mapped.Number](a Array) (out []T, done func()) {
	if out, ok := mapped.Numbers[T](a.Data); ok {
		return out, func() {}
	}
	aligned := alignedCopy(a.Data)
	out, _ = mapped.Numbers[T](aligned)
	return out, func() { copy(a.Data, aligned) }
}

// alignedCopy returns a copy that is aligned to every element: Go aligns memory whose size is a multiple of 8 to 8.
func alignedCopy(b []byte) []byte {
	out := make([]byte, (len(b)+7)&^7)[:len(b)]
	copy(out, b)
	return out
}

// A typed is one function for each type of elements that Go computes with as they are.
type typed[F any] struct {
	int8, uint8, int16, int32, int64, float32, float64 F
}

// forElement returns the function for an element; ok is false for half precision, and for booleans, which are no
// numbers.
func (t typed[F]) forElement(e models.Element) (f F, ok bool) {
	switch e {
	case models.Int8:
		return t.int8, true
	case models.Uint8:
		return t.uint8, true
	case models.Int16:
		return t.int16, true
	case models.Int32:
		return t.int32, true
	case models.Int64:
		return t.int64, true
	case models.Float32:
		return t.float32, true
	case models.Float64:
		return t.float64, true
	}
	return f, false
}

// A sized is one function for each size of elements that are moved.
type sized[F any] struct{ one, two, four, eight F }

// forSize returns the function for elements of so many bytes; ok is false if there is none.
func (s sized[F]) forSize(bytes int) (f F, ok bool) {
	switch bytes {
	case 1:
		return s.one, true
	case 2:
		return s.two, true
	case 4:
		return s.four, true
	case 8:
		return s.eight, true
	}
	return f, false
}
