package operators

import (
	"math"
	"slices"

	"xpwc/models"
)

// Quantizer returns the function of the integer, from low to high, that a number is quantised to. It computes in single
// precision, as ExecuTorch does.
func Quantizer(scale float32, zeroPoint, low, high int) func(x float64) float64 {
	inverse := 1 / scale
	return func(x float64) float64 {
		n := math.RoundToEven(float64(inverse*float32(x))) + float64(zeroPoint)
		return min(max(n, float64(low)), float64(high))
	}
}

// Dequantizer returns the function of the number that an integer stands for.
func Dequantizer(scale float32, zeroPoint float64) func(n float64) float64 {
	return func(n float64) float64 { return float64(float32(n-zeroPoint) * scale) }
}

// Quantize computes [Quantizer] of the first input. The other two, scales and zero points, are broadcast to it in the
// shape that is given.
func Quantize(scales []int, low, high int) Operator {
	return scaled(scales, func(x, scale, zeroPoint float64) float64 {
		return Quantizer(float32(scale), int(zeroPoint), low, high)(x)
	})
}

// Dequantize computes [Dequantizer] of the first input. The other two are as those of [Quantize].
func Dequantize(scales []int) Operator {
	return scaled(scales, func(n, scale, zeroPoint float64) float64 {
		return Dequantizer(float32(scale), math.Trunc(zeroPoint))(n)
	})
}

// scaled computes a function of each element, its scale and its zero point.
func scaled(scales []int, f func(x, scale, zeroPoint float64) float64) Operator {
	return func(shapes [][]int) Kernel {
		shape, ok := Broadcast(shapes[0], scales)
		if !ok || product(shape) != product(shapes[0]) || product(scales) != product(shapes[1]) ||
			product(scales) != product(shapes[2]) {
			wrong("scales and zero points of shapes %v for %v", shapes[1:], shapes[0])
		}
		return computing(shapes[0], func(out Array, in []Array) {
			var x, scale, zeroPoint [buffered]float64
			in = []Array{in[0], in[1].shaped(scales), in[2].shaped(scales)}
			together(out, in, func(i, n int, places, apart []int) {
				in[0].numbers(x[:n], places[0], apart[0])
				in[1].numbers(scale[:n], places[1], apart[1])
				in[2].numbers(zeroPoint[:n], places[2], apart[2])
				for k := range n {
					x[k] = f(x[k], scale[k], zeroPoint[k])
				}
				out.putNumbers(x[:n], i, 1)
			})
		})
	}
}

// ChooseScales computes a scale and a zero point, from low to high, for each row of numbers: the smallest range that
// has all of them and 0. A row is the last dimension, or everything.
func ChooseScales(byRow bool, low, high int) Operator {
	return func(shapes [][]int) Kernel {
		rank := len(shapes[0])
		if rank < 1 || low >= high {
			wrong("scales of shape %v, from %d to %d", shapes[0], low, high)
		}
		shape := []int{1}
		if byRow {
			shape = replaced(shapes[0], rank-1, 1)
		}
		rows := product(shape)
		return Kernel{Shapes: [][]int{shape, shape}, Run: func(out, in []Array) {
			row := make([]float64, product(in[0].Shape)/rows)
			for i := range rows {
				in[0].numbers(row, i*len(row), 1)
				scale, zeroPoint := chooseScale(row, float64(low), float64(high))
				out[0].Put(i, scale)
				out[1].Put(i, zeroPoint)
			}
		}}
	}
}

// chooseScale returns the scale and the zero point of a row of numbers, as ExecuTorch chooses them.
func chooseScale(row []float64, low, high float64) (scale, zeroPoint float64) {
	const smallest = 6.1e-5 // a smaller scale is widened, in single precision
	least, most := 0.0, 0.0
	for _, x := range row {
		least, most = min(least, x), max(most, x)
	}
	scale = (most - least) / (high - low)
	if single := float32(scale); single == 0 || math.IsInf(float64(1/single), 0) {
		scale = 0.1
	}
	if scale < float64(float32(smallest)) {
		widening := float64(float32(smallest) / float32(scale))
		least, most = float64(float32(least*widening)), float64(float32(most*widening))
		scale = float64(float32(smallest))
	}
	zeroPoint = low - least/scale
	if math.Abs(low)-math.Abs(least/scale) >= math.Abs(high)-math.Abs(most/scale) {
		zeroPoint = high - most/scale
	}
	return scale, math.RoundToEven(min(max(zeroPoint, low), high))
}

// LookUp has the rows of a table of integers, the first input, that the indices in the last one name, dequantised. The
// second input has a scale for each row, or for each of equally long parts of it; the third, which may be missing, has
// the zero points. An element has 2, 4 or 8 bits, of which those below 8 are unsigned, with the zero in the middle.
func LookUp(bits int) Operator {
	return func(shapes [][]int) Kernel {
		table, scales, indices := shapes[0], shapes[1], shapes[len(shapes)-1]
		if len(table) != 2 || len(scales) < 1 || scales[0] != table[0] {
			wrong("a table of shape %v with scales of shape %v", table, scales)
		}
		length := table[1] * 8 / bits
		groups := product(scales) / table[0]
		if length%groups != 0 || len(shapes) == 4 && product(shapes[2]) != product(scales) {
			wrong("a table of shape %v with scales of shape %v", table, scales)
		}
		shape := append(slices.Clone(indices), length)
		return computing(shape, func(out Array, in []Array) {
			places := in[len(in)-1]
			row := make([]float64, length)
			for i := range product(indices) {
				n := places.Whole(i)
				if n < 0 || n >= int64(table[0]) {
					outOfRange(n, table[0])
				}
				index := int(n)
				for g := range groups {
					zeroPoint := 0.0
					if len(in) == 4 {
						zeroPoint = in[2].Number(index*groups + g)
					}
					dequantize := Dequantizer(float32(in[1].Number(index*groups+g)), zeroPoint)
					for k := g * (length / groups); k < (g+1)*(length/groups); k++ {
						row[k] = dequantize(tableNumber(in[0], index*length+k, bits))
					}
				}
				out.putNumbers(row, i*length, 1)
			}
		})
	}
}

// tableNumber returns an element of a table: of 4 bits the upper half of a byte comes first, of 2 the lowest pair.
func tableNumber(table Array, i, bits int) float64 {
	switch bits {
	case 4:
		return float64(int(table.Data[i/2]>>(4*(1-i%2))&15) - 8)
	case 2:
		return float64(int(table.Data[i/4]>>(2*(i%4))&3) - 2)
	}
	if table.Element == models.Uint8 {
		return float64(table.Data[i])
	}
	return float64(int8(table.Data[i]))
}
