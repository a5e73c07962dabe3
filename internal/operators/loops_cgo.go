//go:build cgo

package operators

/*
#cgo CFLAGS: -Wall -Wextra
#cgo LDFLAGS: -lm
#include "loops.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"xpwc/models"
)

// The loops have the same numbers in C.
var _ = [1]struct{}{}[C.XPWC_NOT-C.enum_xpwc_loop(loopNot)]

func loopElement(e models.Element) (c C.enum_xpwc_element, ok bool) {
	switch e {
	case models.Int8:
		return C.XPWC_I8, true
	case models.Uint8:
		return C.XPWC_U8, true
	case models.Int16:
		return C.XPWC_I16, true
	case models.Int32:
		return C.XPWC_I32, true
	case models.Int64:
		return C.XPWC_I64, true
	case models.Float32:
		return C.XPWC_F32, true
	case models.Float64:
		return C.XPWC_F64, true
	case models.Bool:
		return C.XPWC_BOOL, true
	}
	return 0, false
}

// inPlace reports whether C can read and write the elements of arrays where they are.
func inPlace(arrays ...Array) bool {
	for _, a := range arrays {
		if !aligned(a.Data, a.Element.Size()) {
			return false
		}
	}
	return true
}

// aligned reports whether memory has elements of so many bytes where C expects them.
func aligned(b []byte, size int) bool { return uintptr(pointer(b))%uintptr(size) == 0 }

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// combineRow computes n results of two rows. A step is 1, or 0 where one element is used for the whole row. It returns
// false if there is no such loop.
func combineRow(l loop, e models.Element, dst, a []byte, aStep int, b []byte, bStep, n int) bool {
	element, ok := loopElement(e)
	return ok && C.xpwc_combine(C.enum_xpwc_loop(l), element, pointer(dst), pointer(a), C.size_t(aStep), pointer(b),
		C.size_t(bStep), C.size_t(n)) != 0
}

// applyRow computes n results of one row. It returns false if there is no such loop.
func applyRow(l loop, e models.Element, dst, src []byte, n int) bool {
	element, ok := loopElement(e)
	return ok && C.xpwc_apply(C.enum_xpwc_loop(l), element, pointer(dst), pointer(src), C.size_t(n)) != 0
}

// foldRow folds each of so many rows of n elements into its element of sums. It returns false if there is no such loop.
func foldRow(l loop, e models.Element, sums []byte, rows int, src []byte, n int) bool {
	element, ok := loopElement(e)
	return ok && C.xpwc_fold(C.enum_xpwc_loop(l), element, pointer(sums), C.size_t(rows), pointer(src),
		C.size_t(n)) != 0
}

// foldColumns combines n elements with each of so many rows. It returns false if there is no such loop.
func foldColumns(l loop, e models.Element, sums []byte, rows int, src []byte, n int) bool {
	element, ok := loopElement(e)
	return ok && C.xpwc_fold_columns(C.enum_xpwc_loop(l), element, pointer(sums), C.size_t(rows), pointer(src),
		C.size_t(n)) != 0
}

// moveElements does what a transfer does, for elements of so many bytes. It returns false if C does not.
func moveElements(size int, dst, src []byte, t *transfer) bool {
	first := func(s []int) *C.ptrdiff_t { return (*C.ptrdiff_t)(unsafe.Pointer(unsafe.SliceData(s))) }
	return C.xpwc_move(C.size_t(size), pointer(dst[t.dst.first*size:]), pointer(src[t.src.first*size:]),
		C.size_t(len(t.shape)), first(t.shape), first(t.dst.steps), first(t.src.steps)) != 0
}

// convertRow converts n numbers. It returns false if there is no such loop.
func convertRow(dstKind models.Element, dst []byte, srcKind models.Element, src []byte, n int) bool {
	switch {
	case n == 0:
		return true
	case srcKind == models.Float16 && dstKind == models.Float32:
		C.xpwc_widen_half((*C.float)(pointer(dst)), (*C.uint16_t)(pointer(src)), C.size_t(n))
		return true
	case srcKind == models.Float32 && dstKind == models.Float16:
		C.xpwc_narrow_half((*C.uint16_t)(pointer(dst)), (*C.float)(pointer(src)), C.size_t(n))
		return true
	}
	dstElement, dstOK := loopElement(dstKind)
	srcElement, srcOK := loopElement(srcKind)
	return dstOK && srcOK &&
		C.xpwc_convert(dstElement, pointer(dst), srcElement, pointer(src), C.size_t(n)) != 0
}

// selectRow copies n elements of so many bytes, from a where a flag is not 0, and from b elsewhere.
func selectRow(size int, dst, flags, a []byte, aStep int, b []byte, bStep, n int) bool {
	return C.xpwc_select(C.size_t(size), pointer(dst), (*C.uint8_t)(pointer(flags)), pointer(a), C.size_t(aStep),
		pointer(b), C.size_t(bStep), C.size_t(n)) != 0
}

// butterflies transforms numbers in the order of their reversed bits, see [fft]. It returns false if C does not.
func butterflies(numbers, roots []complex128) bool {
	C.xpwc_butterflies((*C.double)(unsafe.Pointer(unsafe.SliceData(numbers))),
		(*C.double)(unsafe.Pointer(unsafe.SliceData(roots))), C.size_t(len(numbers)))
	return true
}

// linesTogether is how many lines C transforms at the same time.
const linesTogether = 4

func (f *fft) inC(pin *runtime.Pinner) C.struct_xpwc_fft {
	roots, places := unsafe.SliceData(f.roots), unsafe.SliceData(f.exchanges)
	pin.Pin(roots)
	if places != nil {
		pin.Pin(places)
	}
	return C.struct_xpwc_fft{n: C.size_t(f.n), roots: (*C.double)(unsafe.Pointer(roots)),
		exchanges: C.size_t(len(f.exchanges)), places: (*C.int32_t)(unsafe.Pointer(places))}
}

func doubles(numbers []complex128) *C.double {
	return (*C.double)(unsafe.Pointer(unsafe.SliceData(numbers)))
}

func floats(numbers []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(numbers))) }

// fourierRows transforms rows of a length that are step apart, times a factor, see [realFFT]. It returns false
// if C does not.
func fourierRows(dst []complex128, src []float32, rows, step, length int, factor float64, f *realFFT) bool {
	var pin runtime.Pinner
	defer pin.Unpin()
	pairs, work := f.pairs.inC(&pin), make([]complex128, linesTogether*f.n/2)
	C.xpwc_fourier_rows(doubles(dst), floats(src), C.size_t(rows),
		C.size_t(step), C.size_t(length), C.double(factor), &pairs, doubles(f.roots), doubles(work))
	return true
}

// fourierColumns replaces the columns of a matrix by their transforms. It returns false if C does not.
func fourierColumns(numbers []complex128, columns int, f *fft) bool {
	var pin runtime.Pinner
	defer pin.Unpin()
	transform, work := f.inC(&pin), make([]complex128, linesTogether*f.n)
	C.xpwc_fourier_columns(doubles(numbers), C.size_t(columns), &transform, doubles(work))
	return true
}

// magnitudes computes the absolute values of complex numbers. It returns false if C does not.
func magnitudes(dst, src []float32) bool {
	C.xpwc_magnitudes(floats(dst), floats(src), C.size_t(len(dst)))
	return true
}

// attendAll computes the attention of all queries of a batch. It returns false if C does not.
func attendAll(dst []float32, a attention, in attending) bool {
	sizes := C.xpwc_attention{queries: C.size_t(a.queries), heads: C.size_t(a.heads), groups: C.size_t(a.groups),
		width: C.size_t(a.width), capacity: C.size_t(a.capacity), seen: C.size_t(a.seen(0)),
		scale: C.float(a.scale)}
	if a.mask == CausalMask {
		sizes.more = 1
	}
	C.xpwc_attend(floats(dst), floats(in.scores), floats(in.queries), floats(in.keys), floats(in.values),
		floats(in.mask), &sizes)
	return true
}
