package executorch

import (
	"math"
	"slices"

	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// shapeRules compute the dimensions of dynamic outputs before a call is planned, where they are not those that its
// operands are broadcast to.
var shapeRules = map[string]func(*invocation){
	"aten::_adaptive_avg_pool2d.out":                  sizesComputed,
	"aten::_cdist_forward.out":                        sizesComputed,
	"aten::_conj_physical.out":                        sizesOf(0),
	"aten::_fft_c2r.out":                              sizesComputed,
	"aten::_fft_r2c.out":                              sizesComputed,
	"aten::_log_softmax.out":                          sizesOf(0),
	"aten::_native_batch_norm_legit_no_training.out":  normalizedSizes(7),
	"aten::_pdist_forward.out":                        sizesComputed,
	"aten::_softmax.out":                              sizesOf(0),
	"aten::_to_copy.out":                              sizesOf(0),
	"aten::_unsafe_view.out":                          (*invocation).viewSizes,
	"aten::_upsample_bilinear2d_aa.out":               (*invocation).resizedSizes,
	"aten::addmm.out":                                 func(c *invocation) { c.productSizes(1, 2) },
	"aten::alias_copy.out":                            sizesOf(0),
	"aten::all.all_out":                               sizesComputed,
	"aten::all.dims_out":                              reducedSizes(1, 2),
	"aten::all.out":                                   reducedSizes(1, 2),
	"aten::amax.out":                                  reducedSizes(1, 2),
	"aten::amin.out":                                  reducedSizes(1, 2),
	"aten::any.all_out":                               sizesComputed,
	"aten::any.dims_out":                              reducedSizes(1, 2),
	"aten::any.out":                                   reducedSizes(1, 2),
	"aten::arange.out":                                (*invocation).countSizes,
	"aten::arange.start_out":                          (*invocation).countSizes,
	"aten::argmax.out":                                reducedSizes(1, 2),
	"aten::argmin.out":                                reducedSizes(1, 2),
	"aten::as_strided_copy.out":                       sizesListed(1),
	"aten::avg_pool2d.out":                            (*invocation).poolSizes,
	"aten::bmm.out":                                   func(c *invocation) { c.productSizes(0, 1) },
	"aten::cat.out":                                   (*invocation).joinedSizes,
	"aten::clone.out":                                 sizesOf(0),
	"aten::constant_pad_nd.out":                       sizesComputed,
	"aten::convolution.out":                           (*invocation).convolutionSizes,
	"aten::copy.out":                                  sizesOf(0),
	"aten::cumsum.out":                                sizesOf(0),
	"aten::detach_copy.out":                           sizesOf(0),
	"aten::diagonal_copy.out":                         sizesComputed,
	"aten::embedding.out":                             (*invocation).embeddingSizes,
	"aten::empty.out":                                 sizesListed(0),
	"aten::expand_copy.out":                           (*invocation).expandSizes,
	"aten::fill.Scalar_out":                           sizesOf(0),
	"aten::fill.Tensor_out":                           sizesOf(0),
	"aten::flip.out":                                  sizesOf(0),
	"aten::full.out":                                  sizesListed(0),
	"aten::full_like.out":                             sizesOf(0),
	"aten::gather.out":                                sizesOf(2),
	"aten::glu.out":                                   sizesComputed,
	"aten::grid_sampler_2d.out":                       sizesComputed,
	"aten::index.Tensor_out":                          sizesComputed,
	"aten::index_put.out":                             sizesOf(0),
	"aten::index_select.out":                          (*invocation).indexSelectSizes,
	"aten::lift_fresh_copy.out":                       sizesOf(0),
	"aten::linear.out":                                (*invocation).linearSizes,
	"aten::masked_scatter.out":                        sizesComputed,
	"aten::max.dim_max":                               extremeSizes,
	"aten::max.unary_out":                             sizesComputed,
	"aten::max_pool2d_with_indices.out":               sizesComputed,
	"aten::mean.dtype_out":                            sizesComputed,
	"aten::mean.out":                                  reducedSizes(1, 2),
	"aten::min.dim_min":                               extremeSizes,
	"aten::min.unary_out":                             sizesComputed,
	"aten::mm.out":                                    func(c *invocation) { c.productSizes(0, 1) },
	"aten::narrow_copy.out":                           sizesComputed,
	"aten::native_group_norm.out":                     normalizedSizes(8),
	"aten::native_layer_norm.out":                     normalizedSizes(5),
	"aten::ones.out":                                  sizesListed(0),
	"aten::permute_copy.out":                          (*invocation).permuteSizes,
	"aten::pixel_shuffle.out":                         (*invocation).shuffledSizes,
	"aten::pixel_unshuffle.out":                       (*invocation).shuffledSizes,
	"aten::prod.int_out":                              reducedSizes(1, 2),
	"aten::prod.out":                                  sizesComputed,
	"aten::reflection_pad1d.out":                      sizesComputed,
	"aten::reflection_pad2d.out":                      sizesComputed,
	"aten::reflection_pad3d.out":                      sizesComputed,
	"aten::repeat.out":                                sizesComputed,
	"aten::repeat_interleave.Tensor_out":              sizesComputed,
	"aten::replication_pad1d.out":                     sizesComputed,
	"aten::replication_pad2d.out":                     sizesComputed,
	"aten::replication_pad3d.out":                     sizesComputed,
	"aten::roll.out":                                  sizesOf(0),
	"aten::scalar_tensor.out":                         sizesComputed,
	"aten::scatter.src_out":                           sizesOf(0),
	"aten::scatter.value_out":                         sizesOf(0),
	"aten::scatter_add.out":                           sizesOf(0),
	"aten::select_copy.int_out":                       (*invocation).selectSizes,
	"aten::select_scatter.out":                        sizesOf(0),
	"aten::slice_copy.Tensor_out":                     (*invocation).sliceSizes,
	"aten::slice_scatter.out":                         sizesOf(0),
	"aten::split_copy.Tensor_out":                     (*invocation).splitSizes,
	"aten::split_with_sizes_copy.out":                 (*invocation).splitSizes,
	"aten::squeeze_copy.dim_out":                      (*invocation).squeezeSizes,
	"aten::squeeze_copy.dims_out":                     (*invocation).squeezeSizes,
	"aten::stack.out":                                 (*invocation).stackSizes,
	"aten::sum.IntList_out":                           reducedSizes(1, 2),
	"aten::t_copy.out":                                (*invocation).swapSizes,
	"aten::topk.values":                               sizesComputed,
	"aten::transpose_copy.int_out":                    (*invocation).swapSizes,
	"aten::tril.out":                                  sizesOf(0),
	"aten::unbind_copy.int_out":                       (*invocation).unbindSizes,
	"aten::unfold_copy.out":                           sizesComputed,
	"aten::unsqueeze_copy.out":                        (*invocation).unsqueezeSizes,
	"aten::upsample_bilinear2d.vec_out":               (*invocation).resizedSizes,
	"aten::upsample_nearest2d.out":                    (*invocation).upsampleSizes,
	"aten::upsample_nearest2d.vec_out":                (*invocation).upsampleSizes,
	"aten::var.correction_out":                        reducedSizes(1, 3),
	"aten::var.out":                                   reducedSizes(1, 3),
	"aten::var_mean.correction_out":                   varianceSizes,
	"aten::view_as_real_copy.out":                     sizesComputed,
	"aten::view_copy.out":                             (*invocation).viewSizes,
	"aten::zeros.out":                                 sizesListed(0),
	"dim_order_ops::_clone_dim_order.out":             sizesOf(0),
	"dim_order_ops::_empty_dim_order.out":             sizesListed(0),
	"dim_order_ops::_to_dim_order_copy.out":           sizesOf(0),
	"et_copy::_d2h_copy.out":                          sizesOf(0),
	"et_copy::_h2d_copy.out":                          sizesOf(0),
	"llama::custom_sdpa.out":                          sizesOf(0),
	"llama::sdpa_with_kv_cache.out":                   sizesOf(0),
	"llama::update_cache.out":                         sizesComputed,
	"quantized_decomposed::choose_qparams.Tensor_out": sizesComputed,
	"quantized_decomposed::choose_qparams_per_token_asymmetric.out": sizesComputed,
	"quantized_decomposed::dequantize_per_channel.out":              sizesOf(0),
	"quantized_decomposed::dequantize_per_tensor.Tensor_out":        sizesOf(0),
	"quantized_decomposed::dequantize_per_tensor.out":               sizesOf(0),
	"quantized_decomposed::dequantize_per_token.out":                sizesOf(0),
	"quantized_decomposed::embedding_2bit.dtype_out":                quantizedRowSizes(2),
	"quantized_decomposed::embedding_2bit.out":                      quantizedRowSizes(2),
	"quantized_decomposed::embedding_4bit.dtype_out":                quantizedRowSizes(4),
	"quantized_decomposed::embedding_4bit.out":                      quantizedRowSizes(4),
	"quantized_decomposed::embedding_byte.dtype_out":                quantizedRowSizes(8),
	"quantized_decomposed::embedding_byte.out":                      quantizedRowSizes(8),
	"quantized_decomposed::quantize_per_channel.out":                sizesOf(0),
	"quantized_decomposed::quantize_per_tensor.Tensor_out":          sizesOf(0),
	"quantized_decomposed::quantize_per_tensor.out":                 sizesOf(0),
	"quantized_decomposed::quantize_per_token.out":                  sizesOf(0),
	etView: (*invocation).viewSizes,
}

// etView is the operator of a view that needs no copy.
const etView = "executorch_prim::et_view.default"

// sizesComputed leaves the dimensions to the step that computes the output.
func sizesComputed(*invocation) {}

// sizesOf is those of another argument.
func sizesOf(i int) func(*invocation) { return func(c *invocation) { c.setResult(c.sizes(i)) } }

// normalizedSizes is that argument i, the first output of a normalization, has the sizes of the input.
func normalizedSizes(i int) func(*invocation) {
	return func(c *invocation) { c.setArgument(i, c.sizes(0)) }
}

// sizesListed is those in a list.
func sizesListed(i int) func(*invocation) { return func(c *invocation) { c.setResult(c.integers(i)) } }

// broadcastSizes is those that all tensors before the output are broadcast to.
func (c *invocation) broadcastSizes() {
	last := c.args[c.lastArg()]
	var shapes [][]int
	for _, value := range c.args {
		if t := c.method.values[value].tensor; t != nil && value != last {
			shapes = append(shapes, t.sizes())
		}
	}
	if c.method.values[last].tensor == nil {
		return
	}
	whole, ok := operators.Broadcast(shapes...)
	if !ok {
		malformed("shapes %v do not go together", shapes)
	}
	c.setResult(whole)
}

// viewSizes is those in a list, of which one may be -1.
func (c *invocation) viewSizes() {
	sizes, whole := slices.Clone(c.integers(1)), product(c.tensor(0).shape)
	if i := slices.Index(sizes, -1); i >= 0 {
		sizes[i] = 1
		rest := elements(sizes...)
		sizes[i] = whole / rest
	}
	if elements(sizes...) != whole {
		malformed("a view of shape %v of %v", sizes, c.sizes(0))
	}
	c.setResult(sizes)
}

// expandSizes is those in a list, in which -1 is what the tensor has.
func (c *invocation) expandSizes() {
	sizes, x := slices.Clone(c.integers(1)), c.sizes(0)
	extra := len(sizes) - len(x)
	for i, n := range sizes {
		if n == -1 && i >= extra && extra >= 0 {
			sizes[i] = x[i-extra]
		}
	}
	c.setResult(sizes)
}

// reducedSizes is without the dimensions of argument i, a list or one, or 1 there if the argument keep is true.
func reducedSizes(i, keep int) func(*invocation) {
	return func(c *invocation) {
		x := c.sizes(0)
		dropped := make([]bool, max(len(x), 1)) // a single number has dimension 0, too
		whole := c.absent(i)
		if !whole {
			list := c.integers(i)
			whole = len(list) == 0
			for _, d := range list {
				dropped[counted(d, len(dropped))] = true
			}
		}
		var sizes []int
		for d, n := range x {
			switch {
			case !whole && !dropped[d]:
				sizes = append(sizes, n)
			case c.integer(keep) != 0:
				sizes = append(sizes, 1)
			}
		}
		c.setResult(sizes)
	}
}

// extremeSizes is of an extreme along a dimension and of its index.
func extremeSizes(c *invocation) {
	x := c.sizes(0)
	d := counted(c.integer(1), len(x))
	sizes := slices.Delete(slices.Clone(x), d, d+1)
	if c.integer(2) != 0 {
		sizes = slices.Insert(sizes, d, 1)
	}
	c.setArgument(3, sizes)
	c.setArgument(4, sizes)
}

// countSizes is how many numbers there are from one to another, in steps.
func (c *invocation) countSizes() {
	start, end, step := c.rangeArgs()
	n := math.Ceil((end - start) / step)
	if !(n >= 0 && n <= math.MaxInt32) {
		malformed("the numbers from %g to %g in steps of %g", start, end, step)
	}
	c.setResult([]int{int(n)})
}

// productSizes is of a product of matrices.
func (c *invocation) productSizes(a, b int) {
	x, y := c.sizes(a), c.sizes(b)
	if len(x) < 2 || len(y) < 2 {
		malformed("factors of shapes %v and %v", x, y)
	}
	c.setResult(append(slices.Clone(x[:len(x)-1]), y[len(y)-1]))
}

func (c *invocation) joinedSizes() {
	var sizes []int
	for _, i := range c.tensors(0) {
		x := c.tensorAt(i).sizes()
		if len(x) == 1 && x[0] == 0 {
			continue
		}
		d := counted(c.integer(1), len(x))
		switch {
		case sizes == nil:
			sizes = x
		case len(x) != len(sizes):
			malformed("%v and %v are joined", sizes, x)
		default:
			sizes[d] += x[d]
		}
	}
	c.setResult(sizes)
}

func (c *invocation) stackSizes() {
	list := c.tensors(0)
	x := c.tensorAt(list[0]).sizes()
	c.setResult(slices.Insert(x, counted(c.integer(1), len(x)+1), len(list)))
}

func (c *invocation) splitSizes() {
	x, parts := c.sizes(0), c.tensors(c.lastArg())
	d := counted(c.integer(2), len(x))
	lengths := c.integers(1)
	if len(lengths) == 0 {
		malformed("parts of no lengths")
	}
	begin := 0
	for i, dst := range parts {
		n := lengths[min(i, len(lengths)-1)]
		if len(lengths) == 1 {
			n = min(n, x[d]-begin)
		}
		sizes := slices.Clone(x)
		sizes[d] = n
		begin += n
		c.setSizes(dst, sizes)
	}
}

func (c *invocation) unbindSizes() {
	x := c.sizes(0)
	d := counted(c.integer(1), len(x))
	for _, dst := range c.tensors(c.lastArg()) {
		c.setSizes(dst, slices.Delete(slices.Clone(x), d, d+1))
	}
}

func (c *invocation) selectSizes() {
	x := c.sizes(0)
	d := counted(c.integer(1), len(x))
	c.setResult(slices.Delete(x, d, d+1))
}

func (c *invocation) sliceSizes() {
	x := c.sizes(0)
	d := counted(c.integer(1), len(x))
	if _, n, ok := c.readSpan(); ok {
		x[d] = n
	} else {
		_, _, x[d], _ = c.strideOf(1)
	}
	c.setResult(x)
}

func (c *invocation) unsqueezeSizes() {
	x := c.sizes(0)
	c.setResult(slices.Insert(x, counted(c.integer(1), len(x)+1), 1))
}

// squeezeSizes is without the listed dimensions that are 1.
func (c *invocation) squeezeSizes() {
	x := c.sizes(0)
	dropped := make([]bool, len(x))
	for _, d := range c.integers(1) {
		dropped[counted(d, len(x))] = true
	}
	var sizes []int
	for d, n := range x {
		if !dropped[d] || n != 1 {
			sizes = append(sizes, n)
		}
	}
	c.setResult(sizes)
}

func (c *invocation) permuteSizes() {
	x, dims := c.sizes(0), c.integers(1)
	if len(dims) != len(x) {
		malformed("%v for %d dimensions", dims, len(x))
	}
	sizes := make([]int, len(x))
	for i, d := range dims {
		sizes[i] = x[counted(d, len(x))]
	}
	c.setResult(sizes)
}

func (c *invocation) swapSizes() {
	x := c.sizes(0)
	a, b := 0, max(len(x)-1, 0)
	if len(c.args) > 3 {
		a, b = counted(c.integer(1), len(x)), counted(c.integer(2), len(x))
	}
	if len(x) > 0 {
		x[a], x[b] = x[b], x[a]
	}
	c.setResult(x)
}

// embeddingSizes is a row of the table for each index.
func (c *invocation) embeddingSizes() {
	c.setResult(append(c.sizes(1), c.rowSize()))
}

// rowSize is how many elements a row of a table has, argument 0.
func (c *invocation) rowSize() int {
	table := c.sizes(0)
	if len(table) == 0 {
		malformed("a table of one number")
	}
	return table[len(table)-1]
}

func (c *invocation) indexSelectSizes() {
	x := c.sizes(0)
	x[counted(c.integer(1), len(x))] = product(c.tensor(2).shape)
	c.setResult(x)
}

// upsampleSizes is an image of the height and width in a list or, without one, enlarged by factors.
func (c *invocation) upsampleSizes() {
	x := c.sizes(0)
	y := c.tensor(c.lastArg())
	if len(x) != 4 || len(y.shape) != 4 {
		malformed("an image of %v", x)
	}
	c.setResult(c.scaledSizes(x, c.upsampleFactors()))
}

// resizedSizes is of images of a size that is listed, or times the factors.
func (c *invocation) resizedSizes() {
	x := slices.Clone(c.sizes(0))
	if len(x) != 4 {
		malformed("images of shape %v", x)
	}
	factors := []float64(nil)
	if c.absent(1) && len(c.args) == 5 {
		factors = c.factors(3)
	} else if c.absent(1) {
		factors = []float64{c.number(3), c.number(4)}
	}
	c.setResult(c.scaledSizes(x, factors))
}

// scaledSizes is images of a size that argument 1 lists or, if that is not given, times factors.
func (c *invocation) scaledSizes(sizes []int, factors []float64) []int {
	for k := range 2 {
		switch {
		case c.absent(1) && len(factors) == 2:
			sizes[2+k] = int(min(float64(sizes[2+k])*factors[k], operators.MostIndices))
		case !c.absent(1) && len(c.integers(1)) == 2:
			sizes[2+k] = c.integers(1)[k]
		default:
			malformed("neither a size nor factors")
		}
	}
	return sizes
}

// windowSize is how many places a window has along a dimension.
func windowSize(in, window, stride, dilation, padding int, roundUp bool) int {
	free := in + 2*padding - dilation*(window-1) - 1
	if free < 0 || stride < 1 {
		malformed("a window of %d for %d elements", window, in)
	}
	n := free/stride + 1
	if roundUp && free%stride != 0 && n*stride < in+padding {
		n++
	}
	return n
}

func (c *invocation) poolSizes() {
	x := c.sizes(0)
	if len(x) != 4 {
		return
	}
	places := c.windowSizes(x[2:], xnnpack.Size{Height: 1, Width: 1}, c.integer(4) != 0)
	c.setResult(append(x[:2], places...))
}

// windowSizes is how many places the window of a pooling has down and across an image. Arguments 1 to 3 are its size,
// its stride and the padding.
func (c *invocation) windowSizes(image []int, dilation xnnpack.Size, roundUp bool) []int {
	window := c.size(1, xnnpack.Size{})
	stride, around := c.size(2, window), c.size(3, xnnpack.Size{})
	return []int{
		windowSize(image[0], window.Height, stride.Height, dilation.Height, around.Height, roundUp),
		windowSize(image[1], window.Width, stride.Width, dilation.Width, around.Width, roundUp),
	}
}

func (c *invocation) convolutionSizes() {
	x, w := c.sizes(0), c.sizes(1)
	if len(x) != len(w) || len(x) < 3 {
		return // it is not planned
	}
	element := func(i, k int) int {
		list := c.integers(i)
		if len(list) == 0 {
			malformed("argument %d is empty", i)
		}
		return list[min(k, len(list)-1)]
	}
	sizes := []int{x[0], w[0]}
	if c.integer(6) != 0 {
		sizes[1] = elements(w[1], c.integer(8))
		for k, n := range x[2:] {
			n = (n-1)*element(3, k) - 2*element(4, k) + element(5, k)*(w[2+k]-1) + element(7, k) + 1
			sizes = append(sizes, elements(n))
		}
		c.setResult(sizes)
		return
	}
	for k, n := range x[2:] {
		sizes = append(sizes, windowSize(n, w[2+k], element(3, k), element(5, k), element(4, k), false))
	}
	c.setResult(sizes)
}

// varianceSizes is of a variance and of its mean.
func varianceSizes(c *invocation) {
	c.arg(5)
	for i := 4; i < 6; i++ {
		call := *c
		call.args = append(slices.Clone(c.args[:4]), c.args[i])
		reducedSizes(1, 3)(&call)
	}
}

// linearSizes is as many rows as the first argument has, of as many numbers as the second has rows.
func (c *invocation) linearSizes() {
	x, w := c.sizes(0), c.sizes(1)
	if len(x) < 1 || len(w) != 2 {
		malformed("a matrix of %v for %v", w, x)
	}
	c.setResult(append(slices.Clone(x[:len(x)-1]), w[0]))
}
