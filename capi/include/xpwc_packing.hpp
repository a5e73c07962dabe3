// How XNNPACK packs a kernel, in C++17: part of xpwc.hpp, which includes it.
#ifndef XPWC_PACKING_HPP
#define XPWC_PACKING_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xpwc.h"

namespace xpwc {

// Bytes owned by the caller.
struct Bytes {
  const void* data = nullptr;
  std::size_t size = 0;
};

// Numbers owned by the caller.
template <typename T>
struct Numbers {
  const T* data = nullptr;
  std::size_t size = 0;
};

// A height and a width. 0 means 1.
struct Size {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
};

// Operators that pack weights: see XPWC_OPERATOR_FULLY_CONNECTED.
enum class Operator : std::uint32_t {
  unknown = 0,
  fully_connected = XPWC_OPERATOR_FULLY_CONNECTED,
  convolution_2d = XPWC_OPERATOR_CONVOLUTION_2D,
  depthwise_convolution_2d = XPWC_OPERATOR_DEPTHWISE_CONVOLUTION_2D,
  deconvolution_2d = XPWC_OPERATOR_DECONVOLUTION_2D,
  batch_matrix_multiply = XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY,
};

// A tensor of a node, its type and quantisation: see xpwc_operand.
struct Operand {
  // xnn_datatype_invalid means that the node has no such tensor.
  xnn_datatype datatype = xnn_datatype_invalid;
  std::int32_t zero_point = 0;
  float scale = 0;
  std::uint32_t channel_dim = 0;
  Numbers<float> scales{};
  // The bits of bfloat16 numbers.
  Numbers<std::uint16_t> block_scales{};
  std::uint32_t block_size = 0;
  std::uint32_t non_batch_dims = 0;
};

// How XNNPACK will pack a kernel: see xpwc_packing. The memory it points to is read only during the call.
struct Packing {
  Operator operator_type = Operator::unknown;
  bool transposed = false;
  bool padded = false;
  bool half_precision = false;
  bool sparse_inference = false;
  bool consistent_arithmetic = false;
  // The kernel's shape in the subgraph.
  std::vector<std::size_t> dims{};
  // The number of groups, or the depth multiplier. 0 means 1.
  std::uint32_t groups = 0;
  Size stride{};
  Size dilation{};
  Operand input{};
  Operand kernel{};
  Operand bias{};
  Operand output{};
  // The bias, if input is quantised at inference.
  Bytes hidden_bias{};
  // Replaces all other members, for a host without a node's parameters.
  Bytes opaque{};
};

namespace detail {

constexpr std::uint32_t flag(bool set, std::uint32_t value) { return set ? value : 0; }

inline xpwc_operand c_operand(const Operand& operand) {
  xpwc_operand c{};
  c.datatype = static_cast<std::uint32_t>(operand.datatype);
  c.zero_point = operand.zero_point;
  c.scale = operand.scale;
  c.channel_dim = operand.channel_dim;
  c.scales = operand.scales.data;
  c.scale_count = operand.scales.size;
  c.block_scales = operand.block_scales.data;
  c.block_scale_count = operand.block_scales.size;
  c.block_size = operand.block_size;
  c.non_batch_dims = operand.non_batch_dims;
  return c;
}

// Returns a C view of packing, which must outlive it.
inline xpwc_packing c_packing(const Packing& packing) {
  xpwc_packing c{};
  c.struct_size = sizeof(c);
  c.operator_type = static_cast<std::uint32_t>(packing.operator_type);
  c.flags = flag(packing.transposed, XPWC_PACKING_TRANSPOSED) | flag(packing.padded, XPWC_PACKING_PADDED) |
      flag(packing.half_precision, XPWC_PACKING_HALF_PRECISION) |
      flag(packing.sparse_inference, XPWC_PACKING_SPARSE_INFERENCE) |
      flag(packing.consistent_arithmetic, XPWC_PACKING_CONSISTENT_ARITHMETIC);
  c.groups = packing.groups;
  c.stride_height = packing.stride.height;
  c.stride_width = packing.stride.width;
  c.dilation_height = packing.dilation.height;
  c.dilation_width = packing.dilation.width;
  c.dim_count = static_cast<std::uint32_t>(packing.dims.size());
  c.dims = packing.dims.empty() ? nullptr : packing.dims.data();
  c.input = c_operand(packing.input);
  c.kernel = c_operand(packing.kernel);
  c.bias = c_operand(packing.bias);
  c.output = c_operand(packing.output);
  c.hidden_bias = packing.hidden_bias.data;
  c.hidden_bias_size = packing.hidden_bias.size;
  c.opaque = packing.opaque.data;
  c.opaque_size = packing.opaque.size;
  return c;
}

}  // namespace detail

}  // namespace xpwc

#endif
