package operators

import (
	"math"
	"testing"

	"xpwc/models"
)

// BenchmarkOperators runs operators on images and rows of ordinary sizes.
func BenchmarkOperators(b *testing.B) {
	image, rows, zero := []int{1, 64, 56, 56}, []int{512, 1024}, []int{0, 0, 0, 0}
	around, every := []int{0, 0, 1, 1}, [][]int{Every(-1, 58, 1), Every(-1, 58, 1)}
	for _, list := range every {
		for i, n := range list {
			list[i] = min(max(n, 0), 55)
		}
	}
	twice := make([]int, 112)
	for i := range twice {
		twice[i] = i / 2
	}
	floats := func(shape ...int) Array {
		a := New(models.Float32, shape...)
		for i := range product(shape) {
			a.Put(i, math.Sin(float64(i*i)))
		}
		return a
	}
	indices := func(length int, shape ...int) Array {
		a := New(models.Int64, shape...)
		for i := range product(shape) {
			a.Put(i, float64(i*7%length))
		}
		return a
	}
	mask := New(models.Bool, rows...)
	for i := range mask.Data {
		mask.Data[i] = byte(i * i % 3 & 1)
	}
	for _, c := range []struct {
		name string
		op   Operator
		out  models.Element
		in   []Array
	}{
		{"reflect", MirrorPad(around, around, false), models.Float32, []Array{floats(image...)}},
		{"replicate", Take(2, every...), models.Float32, []Array{floats(image...)}},
		{"pad", Pad(around, around), models.Float32, []Array{floats(image...)}},
		{"upsample", Take(2, twice, twice), models.Float32, []Array{floats(image...)}},
		{"reverse", Reverse([]int{3}), models.Float32, []Array{floats(image...)}},
		{"repeat", Tile([]int{1, 1, 2, 2}), models.Float32, []Array{floats(image...)}},
		{"slice", Slice(zero, []int{1, 64, 28, 28}), models.Float32, []Array{floats(image...)}},
		{"transpose", Transpose([]int{0, 2, 3, 1}), models.Float32, []Array{floats(image...)}},
		{"expand", Expand(rows), models.Float32, []Array{floats(1, 1024)}},
		{"index", Index([]int{0}), models.Float32, []Array{floats(rows...), indices(512, 512)}},
		{"index pairs", Index([]int{2, 3}), models.Float32,
			[]Array{floats(image...), indices(56, 56, 1), indices(56, 56)}},
		{"gather", GatherElements(1), models.Float32, []Array{floats(rows...), indices(1024, 512, 1024)}},
		{"slice_scatter", Put(1, Every(0, 512, 2)), models.Float32, []Array{floats(rows...), floats(512, 512)}},
		{"topk", TopK(8), models.Float32, []Array{floats(rows...)}},
		{"cumsum", CumulativeSum(1, false, false), models.Float32, []Array{floats(rows...)}},
		{"amax", Reduce(Maximum, []int{1}, false), models.Float32, []Array{floats(rows...)}},
		{"amax columns", Reduce(Maximum, []int{0}, false), models.Float32, []Array{floats(rows...)}},
		{"sum", Reduce(Sum, []int{1}, false), models.Int64, []Array{indices(100, rows...)}},
		{"any", Reduce(Or, []int{1}, false), models.Bool, []Array{mask}},
		{"argmax", ArgMax(1), models.Int64, []Array{floats(rows...)}},
		{"where", Select(false), models.Float32, []Array{mask, floats(rows...), floats(1)}},
		{"masked_fill", Fill(-1), models.Float32, []Array{floats(rows...), mask}},
		{"eq", Combine(EqualTo), models.Bool, []Array{floats(rows...), floats(1)}},
		{"add", Combine(Sum), models.Int64, []Array{indices(100, rows...), indices(100, 1024)}},
		{"not", Negation(), models.Bool, []Array{mask}},
		{"cast", Cast(), models.Float32, []Array{indices(100, rows...)}},
		{"erf", Apply(math.Erf), models.Float32, []Array{floats(rows...)}},
		{"attention, one token", Attention(0.125, CausalMask, 511), models.Float32,
			[]Array{floats(1, 1, 9, 64), floats(1, 512, 3, 64), floats(1, 512, 3, 64)}},
		{"attention, a prompt", Attention(0.125, CausalMask, 0), models.Float32,
			[]Array{floats(1, 128, 9, 64), floats(1, 512, 3, 64), floats(1, 512, 3, 64)}},
		{"log_softmax", LogSoftmax(1), models.Float32, []Array{floats(rows...)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var shapes [][]int
			for _, a := range c.in {
				shapes = append(shapes, a.Shape)
			}
			kernel := c.op(shapes)
			var out []Array
			for i, shape := range kernel.Shapes {
				out = append(out, New([]models.Element{c.out, models.Int64}[i], shape...))
			}
			for b.Loop() {
				kernel.Run(out, c.in)
			}
		})
	}
}
