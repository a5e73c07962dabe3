package executorch

import (
	"errors"
	"fmt"
	"strings"

	"xpwc/internal/fault"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// kernels are the operators outside of delegates that run here, as PyTorch documents them. The last
// argument of a call is what it computes. What only moves elements has no function for Go: see [flow.Node].
var kernels = map[string]operatorRow{
	"aten::_adaptive_avg_pool2d.out":                  {(*invocation).adaptivePool, (*invocation).adaptiveInGo},
	"aten::_cdist_forward.out":                        {inGo: (*invocation).distances},
	"aten::_conj_physical.out":                        {inGo: (*invocation).conjugate},
	"aten::_fft_c2r.out":                              {inGo: (*invocation).inverseSpectrum},
	"aten::_fft_r2c.out":                              {inGo: (*invocation).spectrum},
	"aten::_log_softmax.out":                          {(*invocation).logSoftmaxNodes, (*invocation).logSoftmax},
	"aten::_native_batch_norm_legit.no_stats_out":     {nodes: (*invocation).instanceNorm},
	"aten::_native_batch_norm_legit_no_training.out":  {nodes: (*invocation).batchNorm},
	"aten::_pdist_forward.out":                        {inGo: (*invocation).pairDistances},
	"aten::_softmax.out":                              {nodes: (*invocation).softmax},
	"aten::_to_copy.out":                              {(*invocation).copyTensor, hostedRow(operators.Cast(), 0).inGo},
	"aten::_unsafe_view.out":                          {nodes: (*invocation).reshaped},
	"aten::_upsample_bilinear2d_aa.out":               {inGo: (*invocation).smoothBilinear},
	"aten::abs.out":                                   {unaryRow(operators.Abs).nodes, (*invocation).absolute},
	"aten::acos.out":                                  unaryRow(operators.ArcCosine),
	"aten::acosh.out":                                 unaryRow(operators.AreaCosine),
	"aten::add.Scalar_out":                            {(*invocation).sum, combined(operators.Sum)},
	"aten::add.out":                                   {(*invocation).sum, combined(operators.Sum)},
	"aten::addmm.out":                                 {nodes: (*invocation).matrices},
	"aten::alias_copy.out":                            {nodes: (*invocation).reshaped},
	"aten::all.all_out":                               reducedRow(operators.And),
	"aten::all.dims_out":                              reducedRow(operators.And),
	"aten::all.out":                                   reducedRow(operators.And),
	"aten::amax.out":                                  reducedRow(operators.Maximum),
	"aten::amin.out":                                  reducedRow(operators.Minimum),
	"aten::any.all_out":                               reducedRow(operators.Or),
	"aten::any.dims_out":                              {inGo: (*invocation).anyOf},
	"aten::any.out":                                   {inGo: (*invocation).anyOf},
	"aten::arange.out":                                {inGo: (*invocation).arange},
	"aten::arange.start_out":                          {inGo: (*invocation).arange},
	"aten::argmax.out":                                indexRow(operators.ArgMax),
	"aten::argmin.out":                                indexRow(operators.ArgMin),
	"aten::as_strided_copy.out":                       {inGo: (*invocation).asStrided},
	"aten::asin.out":                                  unaryRow(operators.ArcSine),
	"aten::asinh.out":                                 unaryRow(operators.AreaSine),
	"aten::atan.out":                                  unaryRow(operators.ArcTangentOne),
	"aten::atan2.out":                                 {inGo: combinedNumbers(operators.ArcTangent)},
	"aten::atanh.out":                                 unaryRow(operators.AreaTangent),
	"aten::avg_pool2d.out":                            {(*invocation).averagePool, (*invocation).averageInGo},
	"aten::bitwise_and.Scalar_out":                    bitsRow(operators.BitAnd),
	"aten::bitwise_and.Tensor_out":                    bitsRow(operators.BitAnd),
	"aten::bitwise_left_shift.Tensor_Scalar_out":      bitsRow(operators.ShiftLeft),
	"aten::bitwise_left_shift.Tensor_out":             bitsRow(operators.ShiftLeft),
	"aten::bitwise_not.out":                           {inGo: (*invocation).bitNot},
	"aten::bitwise_or.Scalar_out":                     bitsRow(operators.BitOr),
	"aten::bitwise_or.Tensor_out":                     bitsRow(operators.BitOr),
	"aten::bitwise_right_shift.Tensor_Scalar_out":     bitsRow(operators.ShiftRight),
	"aten::bitwise_right_shift.Tensor_out":            bitsRow(operators.ShiftRight),
	"aten::bitwise_xor.Scalar_out":                    bitsRow(operators.BitXor),
	"aten::bitwise_xor.Tensor_out":                    bitsRow(operators.BitXor),
	"aten::bmm.out":                                   {nodes: (*invocation).multiplied},
	"aten::cat.out":                                   {nodes: (*invocation).joined},
	"aten::ceil.out":                                  unaryRow(operators.Ceiling),
	"aten::clamp.Tensor_out":                          {inGo: (*invocation).clampBetween},
	"aten::clamp.out":                                 {(*invocation).clamp, (*invocation).clampInGo},
	"aten::clone.out":                                 {(*invocation).copyTensor, hostedRow(operators.Cast(), 0).inGo},
	"aten::constant_pad_nd.out":                       {nodes: (*invocation).pad},
	"aten::convolution.out":                           {nodes: (*invocation).convolution},
	"aten::copy.out":                                  {inGo: expanded(1)},
	"aten::copy_":                                     {inGo: (*invocation).keepState},
	"aten::cos.out":                                   unaryRow(operators.Cosine),
	"aten::cosh.out":                                  unaryRow(operators.HyperbolicCosine),
	"aten::cumsum.out":                                {inGo: (*invocation).cumulativeSum},
	"aten::detach_copy.out":                           {nodes: (*invocation).reshaped},
	"aten::diagonal_copy.out":                         {inGo: (*invocation).diagonal},
	"aten::div.Scalar_mode_out":                       {inGo: (*invocation).divided},
	"aten::div.Scalar_out":                            binaryRow(operators.Quotient),
	"aten::div.out":                                   binaryRow(operators.Quotient),
	"aten::div.out_mode":                              {inGo: (*invocation).divided},
	"aten::elu.out":                                   {nodes: (*invocation).elu},
	"aten::embedding.out":                             {inGo: (*invocation).embedding},
	"aten::empty.out":                                 constantRow(0),
	"aten::eq.Scalar_out":                             comparisonRow(operators.EqualTo),
	"aten::eq.Tensor_out":                             comparisonRow(operators.EqualTo),
	"aten::erf.out":                                   unaryRow(operators.ErrorFunction),
	"aten::exp.out":                                   unaryRow(operators.Exp),
	"aten::expand_copy.out":                           {(*invocation).expand, expanded(0)},
	"aten::expm1.out":                                 unaryRow(operators.ExpLess1),
	"aten::fill.Scalar_out":                           {full(1), fullOf(1)},
	"aten::fill.Tensor_out":                           {inGo: expanded(1)},
	"aten::flip.out":                                  {inGo: (*invocation).flip},
	"aten::floor.out":                                 unaryRow(operators.Floor),
	"aten::floor_divide.out":                          binaryRow(operators.FloorQuotient),
	"aten::fmod.Scalar_out":                           binaryRow(operators.TruncatedRemainder),
	"aten::fmod.Tensor_out":                           binaryRow(operators.TruncatedRemainder),
	"aten::full.out":                                  {full(1), fullOf(1)},
	"aten::full_like.out":                             {full(1), fullOf(1)},
	"aten::gather.out":                                {inGo: (*invocation).gather},
	"aten::ge.Scalar_out":                             comparisonRow(operators.GreaterOrEqual),
	"aten::ge.Tensor_out":                             comparisonRow(operators.GreaterOrEqual),
	"aten::gelu.out":                                  {nodes: (*invocation).gelu},
	"aten::glu.out":                                   {nodes: (*invocation).gated},
	"aten::grid_sampler_2d.out":                       {inGo: (*invocation).gridSample},
	"aten::gt.Scalar_out":                             comparisonRow(operators.Greater),
	"aten::gt.Tensor_out":                             comparisonRow(operators.Greater),
	"aten::hardswish.out":                             unaryRow(operators.HardSwish),
	"aten::hardtanh.out":                              {nodes: (*invocation).clamp},
	"aten::index.Tensor_out":                          {inGo: (*invocation).indexed},
	"aten::index_put.out":                             {inGo: (*invocation).indexPut},
	"aten::index_select.out":                          {inGo: (*invocation).indexSelect},
	"aten::isinf.out":                                 hostedRow(operators.IsInfinite(), 0),
	"aten::isnan.out":                                 hostedRow(operators.IsNaN(), 0),
	"aten::le.Scalar_out":                             comparisonRow(operators.LessOrEqual),
	"aten::le.Tensor_out":                             comparisonRow(operators.LessOrEqual),
	"aten::leaky_relu.out":                            {nodes: (*invocation).leakyReLU},
	"aten::lift_fresh_copy.out":                       {nodes: (*invocation).reshaped},
	"aten::linear.out":                                {nodes: (*invocation).linear},
	"aten::log.out":                                   unaryRow(operators.Log),
	"aten::log10.out":                                 unaryRow(operators.Log10),
	"aten::log1p.out":                                 unaryRow(operators.Log1More),
	"aten::log2.out":                                  unaryRow(operators.Log2),
	"aten::logical_and.out":                           comparisonRow(operators.And),
	"aten::logical_not.out":                           hostedRow(operators.Negation(), 0),
	"aten::logical_or.out":                            comparisonRow(operators.Or),
	"aten::logical_xor.out":                           comparisonRow(operators.Xor),
	"aten::logit.out":                                 {inGo: (*invocation).logit},
	"aten::lt.Scalar_out":                             comparisonRow(operators.Less),
	"aten::lt.Tensor_out":                             comparisonRow(operators.Less),
	"aten::masked_fill.Scalar_out":                    {inGo: (*invocation).maskedFill},
	"aten::masked_scatter.out":                        hostedRow(operators.MaskedScatter(), 0, 1, 2),
	"aten::max.dim_max":                               extremeRow(operators.Maximum, operators.ArgMax),
	"aten::max.unary_out":                             wholeRow(operators.Maximum),
	"aten::max_pool2d_with_indices.out":               {(*invocation).maxPool, (*invocation).maxPoolInGo},
	"aten::maximum.out":                               binaryRow(operators.Maximum),
	"aten::mean.dtype_out":                            {(*invocation).meanOfAll, (*invocation).meanInGo},
	"aten::mean.out":                                  {reducingCall(xnnpack.ReduceMean), (*invocation).meanInGo},
	"aten::min.dim_min":                               extremeRow(operators.Minimum, operators.ArgMin),
	"aten::min.unary_out":                             wholeRow(operators.Minimum),
	"aten::minimum.out":                               binaryRow(operators.Minimum),
	"aten::mm.out":                                    {nodes: (*invocation).matrices},
	"aten::mul.Scalar_out":                            binaryRow(operators.Product),
	"aten::mul.out":                                   {binaryRow(operators.Product).nodes, (*invocation).product},
	"aten::narrow_copy.out":                           {nodes: (*invocation).narrowed},
	"aten::native_group_norm.out":                     {nodes: (*invocation).groupNorm},
	"aten::native_layer_norm.out":                     {nodes: (*invocation).layerNorm},
	"aten::ne.Scalar_out":                             comparisonRow(operators.NotEqual),
	"aten::ne.Tensor_out":                             comparisonRow(operators.NotEqual),
	"aten::neg.out":                                   unaryRow(operators.Negate),
	"aten::ones.out":                                  constantRow(1),
	"aten::permute_copy.out":                          {nodes: (*invocation).permute},
	"aten::pixel_shuffle.out":                         {nodes: (*invocation).shuffled},
	"aten::pixel_unshuffle.out":                       {nodes: (*invocation).shuffled},
	"aten::pow.Scalar_out":                            {(*invocation).powerOfNumber, (*invocation).powerOfNumberInGo},
	"aten::pow.Tensor_Scalar_out":                     {(*invocation).power, combined(operators.Power)},
	"aten::pow.Tensor_Tensor_out":                     binaryRow(operators.Power),
	"aten::prod.int_out":                              {inGo: (*invocation).productAlong},
	"aten::prod.out":                                  wholeRow(operators.Product),
	"aten::reciprocal.out":                            {(*invocation).reciprocal, (*invocation).reciprocalInGo},
	"aten::reflection_pad1d.out":                      {inGo: (*invocation).reflect},
	"aten::reflection_pad2d.out":                      {inGo: (*invocation).reflect},
	"aten::reflection_pad3d.out":                      {inGo: (*invocation).reflect},
	"aten::relu.out":                                  unaryRow(operators.ReLU),
	"aten::remainder.Scalar_out":                      binaryRow(operators.FloorRemainder),
	"aten::remainder.Tensor_out":                      binaryRow(operators.FloorRemainder),
	"aten::repeat.out":                                {inGo: (*invocation).repeat},
	"aten::repeat_interleave.Tensor_out":              {inGo: (*invocation).repeatIndices},
	"aten::replication_pad1d.out":                     {inGo: (*invocation).replicate},
	"aten::replication_pad2d.out":                     {inGo: (*invocation).replicate},
	"aten::replication_pad3d.out":                     {inGo: (*invocation).replicate},
	"aten::roll.out":                                  {inGo: (*invocation).roll},
	"aten::round.out":                                 unaryRow(operators.Round),
	"aten::rsqrt.out":                                 unaryRow(operators.ReciprocalSquareRoot),
	"aten::rsub.Scalar_out":                           {inGo: (*invocation).reverseDifference},
	"aten::scalar_tensor.out":                         {full(0), fullOf(0)},
	"aten::scatter.src_out":                           {inGo: (*invocation).scatter},
	"aten::scatter.value_out":                         {inGo: (*invocation).scatter},
	"aten::scatter_add.out":                           {inGo: (*invocation).scatterAdd},
	"aten::select_copy.int_out":                       {nodes: (*invocation).selected},
	"aten::select_scatter.out":                        {inGo: (*invocation).selectScatter},
	"aten::sigmoid.out":                               unaryRow(operators.Sigmoid),
	"aten::sign.out":                                  unaryRow(operators.Sign),
	"aten::sin.out":                                   unaryRow(operators.Sine),
	"aten::sinh.out":                                  unaryRow(operators.HyperbolicSine),
	"aten::slice_copy.Tensor_out":                     {nodes: (*invocation).slice},
	"aten::slice_scatter.out":                         {inGo: (*invocation).sliceScatter},
	"aten::split_copy.Tensor_out":                     {nodes: (*invocation).split},
	"aten::split_with_sizes_copy.out":                 {nodes: (*invocation).split},
	"aten::sqrt.out":                                  unaryRow(operators.SquareRoot),
	"aten::squeeze_copy.dim_out":                      {nodes: (*invocation).reshaped},
	"aten::squeeze_copy.dims_out":                     {nodes: (*invocation).reshaped},
	"aten::stack.out":                                 {nodes: (*invocation).stacked},
	"aten::sub.Scalar_out":                            {(*invocation).sum, combined(operators.Difference)},
	"aten::sub.out":                                   {(*invocation).sum, combined(operators.Difference)},
	"aten::sum.IntList_out":                           {reducingCall(xnnpack.ReduceSum), reducedBy(operators.Sum)},
	"aten::t_copy.out":                                {nodes: (*invocation).swap},
	"aten::tan.out":                                   unaryRow(operators.Tangent),
	"aten::tanh.out":                                  unaryRow(operators.Tanh),
	"aten::topk.values":                               {inGo: (*invocation).topK},
	"aten::transpose_copy.int_out":                    {nodes: (*invocation).swap},
	"aten::tril.out":                                  {inGo: (*invocation).triangle},
	"aten::trunc.out":                                 unaryRow(operators.Truncate),
	"aten::unbind_copy.int_out":                       {nodes: (*invocation).unbind},
	"aten::unfold_copy.out":                           {inGo: (*invocation).unfolded},
	"aten::unsqueeze_copy.out":                        {nodes: (*invocation).reshaped},
	"aten::upsample_bilinear2d.vec_out":               {inGo: (*invocation).bilinear},
	"aten::upsample_nearest2d.out":                    {inGo: (*invocation).nearest},
	"aten::upsample_nearest2d.vec_out":                {inGo: (*invocation).nearest},
	"aten::var.correction_out":                        {nodes: (*invocation).variance},
	"aten::var.out":                                   {nodes: (*invocation).variance},
	"aten::var_mean.correction_out":                   {nodes: (*invocation).variances},
	"aten::view_as_real_copy.out":                     {inGo: (*invocation).realParts},
	"aten::view_copy.out":                             {nodes: (*invocation).reshaped},
	"aten::where.self_out":                            {inGo: (*invocation).selectedBy},
	"aten::zeros.out":                                 constantRow(0),
	"dim_order_ops::_clone_dim_order.out":             {(*invocation).copyTensor, hostedRow(operators.Cast(), 0).inGo},
	"dim_order_ops::_empty_dim_order.out":             constantRow(0),
	"dim_order_ops::_to_dim_order_copy.out":           {(*invocation).copyTensor, hostedRow(operators.Cast(), 0).inGo},
	"et_copy::_d2h_copy.out":                          {nodes: (*invocation).reshaped},
	"et_copy::_h2d_copy.out":                          {nodes: (*invocation).reshaped},
	"llama::custom_sdpa.out":                          {inGo: (*invocation).attention},
	"llama::sdpa_with_kv_cache.out":                   {inGo: (*invocation).attentionWithUpdate},
	"llama::update_cache.out":                         {inGo: (*invocation).updateCache},
	"quantized_decomposed::choose_qparams.Tensor_out": {inGo: (*invocation).chosenScale},
	"quantized_decomposed::choose_qparams_per_token_asymmetric.out": {inGo: (*invocation).chosenScales},
	"quantized_decomposed::dequantize_per_channel.out":              {inGo: (*invocation).dequantizedByChannel},
	"quantized_decomposed::dequantize_per_tensor.Tensor_out":        {inGo: (*invocation).dequantized},
	"quantized_decomposed::dequantize_per_tensor.out":               {inGo: (*invocation).dequantized},
	"quantized_decomposed::dequantize_per_token.out":                {inGo: (*invocation).dequantizedByToken},
	"quantized_decomposed::embedding_2bit.dtype_out":                quantizedEmbedding(2),
	"quantized_decomposed::embedding_2bit.out":                      quantizedEmbedding(2),
	"quantized_decomposed::embedding_4bit.dtype_out":                quantizedEmbedding(4),
	"quantized_decomposed::embedding_4bit.out":                      quantizedEmbedding(4),
	"quantized_decomposed::embedding_byte.dtype_out":                quantizedEmbedding(8),
	"quantized_decomposed::embedding_byte.out":                      quantizedEmbedding(8),
	"quantized_decomposed::quantize_per_channel.out":                {inGo: (*invocation).quantizedByChannel},
	"quantized_decomposed::quantize_per_tensor.Tensor_out":          {inGo: (*invocation).quantized},
	"quantized_decomposed::quantize_per_tensor.out":                 {inGo: (*invocation).quantized},
	"quantized_decomposed::quantize_per_token.out":                  {inGo: (*invocation).quantizedByToken},
	etView: {nodes: (*invocation).reshaped},
}

// kernel plans a call of an operator.
func (p *planner) kernel(name string, args []int) {
	values, steps := len(p.plan.values), len(p.plan.steps)
	cause := ""
	if len(args) == 0 {
		malformed("operator %s has no arguments", name)
	}
	for _, plan := range []func(*invocation){kernels[name].nodes, kernels[name].inGo} {
		if plan == nil {
			continue
		}
		c := &invocation{planner: p, name: name, args: args}
		err := fault.Try(func() { plan(c) })
		if !errors.Is(err, errOutside) {
			if fault.Check(err); len(p.plan.steps) > steps {
				p.count(name, Between)
			}
			return
		}
		p.plan.values, p.plan.steps = p.plan.values[:values], p.plan.steps[:steps]
		cause = c.types()
		if err != errOutside {
			cause += fmt.Sprintf(" (%s)", strings.TrimPrefix(err.Error(), errOutside.Error()+": "))
		}
	}
	p.count(name+cause, Outside)
}

// types returns the types of the tensors of a call that cannot be run, for the error.
func (c *invocation) types() string {
	for _, i := range c.args {
		if t := c.method.values[i].tensor; t != nil {
			if last := c.method.values[c.args[c.lastArg()]].tensor; last != nil && last.dtype != t.dtype {
				return fmt.Sprintf(" from %v to %v", t.dtype, last.dtype)
			}
			return fmt.Sprintf(" of %v", t.dtype)
		}
	}
	return ""
}
