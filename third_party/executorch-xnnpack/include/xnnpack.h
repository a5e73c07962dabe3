// What this project calls of the XNNPACK that is inside ExecuTorch's wheel (libexecutorch_backend_xnnpack.so), which comes
// without a header, and for hosts every xnn_define_*. The names, numbers and layouts are those of google/XNNPACK, commit
// 92a7ad50 (July 2026), whose own header tells what each means. Numbers are written out because they are the library's ABI:
// those of the unary and the reduce operators are other ones than in 2024.
#ifndef XPWC_EXECUTORCH_XNNPACK_H
#define XPWC_EXECUTORCH_XNNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthreadpool.h>

// The backend in the same library initializes XNNPACK when it is loaded, before a program's first line.
#define XPWC_XNNPACK_IS_INITIALIZED_WHEN_LOADED 1

// It has functions that take lists where XNNPACK of 2024 has one for each number of operands.
#define XPWC_XNNPACK_TAKES_LISTS 1

#define XNN_EXTRA_BYTES 16
#define XNN_MAX_TENSOR_DIMS 6
#define XNN_MIN_BLOCKSIZE 32
#define XNN_INVALID_VALUE_ID UINT32_MAX

// Flags of values.
#define XNN_VALUE_FLAG_EXTERNAL_INPUT 0x1
#define XNN_VALUE_FLAG_EXTERNAL_OUTPUT 0x2

// Flags of nodes. The same bit says different things to different operators.
#define XNN_FLAG_TRANSPOSE_WEIGHTS 0x1
#define XNN_FLAG_TRANSPOSE_B 0x1
#define XNN_FLAG_TENSORFLOW_SAME_PADDING 0x4
#define XNN_FLAG_TENSORFLOW_LEGACY_MODE 0x4
#define XNN_FLAG_ALIGN_CORNERS 0x8
#define XNN_FLAG_KEEP_DIMS 0x40

// Flags of runtimes.
#define XNN_FLAG_HINT_SPARSE_INFERENCE 0x1
#define XNN_FLAG_HINT_FP16_INFERENCE 0x2
#define XNN_FLAG_FORCE_FP16_INFERENCE 0x4
#define XNN_FLAG_BASIC_PROFILING 0x8
#define XNN_FLAG_YIELD_WORKERS 0x10
#define XNN_FLAG_TRANSIENT_INDIRECTION_BUFFER 0x20

#ifdef __cplusplus
extern "C" {
#endif

enum xnn_status {
  xnn_status_success = 0,
  xnn_status_uninitialized = 1,
  xnn_status_invalid_parameter = 2,
  xnn_status_invalid_state = 3,
  xnn_status_unsupported_parameter = 4,
  xnn_status_unsupported_hardware = 5,
  xnn_status_out_of_memory = 6,
  xnn_status_reallocation_required = 7,
  xnn_status_deprecated = 8,
};

// In these names: q is quantised, c by channels, b by blocks, d dynamically; a leading p is packed for the kernel.
enum xnn_datatype {
  xnn_datatype_invalid = 0,
  xnn_datatype_fp32 = 1,
  xnn_datatype_fp16 = 2,
  xnn_datatype_qint8 = 3,
  xnn_datatype_quint8 = 4,
  xnn_datatype_qint32 = 5,
  xnn_datatype_qcint8 = 6,
  xnn_datatype_qcint32 = 7,
  xnn_datatype_qcint4 = 8,
  xnn_datatype_qdint8 = 9,
  xnn_datatype_qpint8 = 10,
  xnn_datatype_int32 = 11,
  xnn_datatype_qbint4 = 12,
  xnn_datatype_pfp32 = 13,
  xnn_datatype_bf16 = 14,
  xnn_datatype_qduint8 = 15,
  xnn_datatype_pfp16 = 16,
  xnn_datatype_pqint8 = 17,
  xnn_datatype_qcint2 = 18,
  xnn_datatype_qint4 = 19,
  xnn_datatype_qint2 = 20,
};

enum xnn_unary_operator {
  xnn_unary_invalid = -1,
  xnn_unary_abs = 0,
  xnn_unary_bankers_rounding = 2,
  xnn_unary_ceiling = 3,
  xnn_unary_clamp = 4,
  xnn_unary_convert = 5,
  xnn_unary_cosine = 6,
  xnn_unary_elu = 7,
  xnn_unary_exp = 8,
  xnn_unary_floor = 9,
  xnn_unary_gelu = 10,
  xnn_unary_hardswish = 11,
  xnn_unary_leaky_relu = 12,
  xnn_unary_log = 13,
  xnn_unary_negate = 14,
  xnn_unary_reciprocal_square_root = 15,
  xnn_unary_sigmoid = 16,
  xnn_unary_sine = 17,
  xnn_unary_square_root = 18,
  xnn_unary_square = 19,
  xnn_unary_tanh = 20,
  xnn_unary_bitwise_not = 21,
  xnn_unary_count_leading_zeros = 22,
  xnn_unary_cube_root = 23,
  xnn_unary_popcount = 24,
  xnn_unary_sign = 25,
};

enum xnn_binary_operator {
  xnn_binary_invalid = -1,
  xnn_binary_add = 0,
  xnn_binary_subtract = 1,
  xnn_binary_multiply = 2,
  xnn_binary_divide = 3,
  xnn_binary_maximum = 4,
  xnn_binary_minimum = 5,
  xnn_binary_copysign = 6,
  xnn_binary_squared_difference = 7,
  xnn_binary_prelu = 8,
  xnn_binary_modulus = 9,
  xnn_binary_atan2 = 10,
  xnn_binary_pow = 11,
  xnn_binary_bitwise_and = 12,
  xnn_binary_bitwise_or = 13,
  xnn_binary_bitwise_xor = 14,
  xnn_binary_shift_left = 15,
  xnn_binary_shift_right_logical = 16,
  xnn_binary_shift_right_arithmetic = 17,
};

enum xnn_reduce_operator {
  xnn_reduce_invalid = -1,
  xnn_reduce_sum = 0,
  xnn_reduce_mean = 2,
};

enum xnn_profile_info {
  xnn_profile_info_num_operators = 0,
  xnn_profile_info_operator_name = 1,
  xnn_profile_info_operator_timing = 2,
};

enum xnn_weights_cache_finalization_kind {
  xnn_weights_cache_finalization_kind_hard = 0,
  xnn_weights_cache_finalization_kind_soft = 1,
};

union xnn_unary_params {
  struct { float min, max; } clamp;
  struct { float alpha; } elu;
  struct { float negative_slope; } leaky_relu;
};

struct xnn_binary_params {
  double output_min, output_max;
};

struct xnn_external_value {
  uint32_t id;
  void* data;
};

// The weights cache: what XNNPACK calls, and what it asks with.
struct xnn_weights_cache_look_up_key {
  uint32_t seed;
  const void* kernel;
  const void* bias;
  uint32_t fingerprint_id;
};

struct xnn_weights_cache_provider {
  void* context;
  size_t (*look_up)(void* context, const struct xnn_weights_cache_look_up_key* key);
  void* (*reserve_space)(void* context, size_t bytes);
  size_t (*look_up_or_insert)(void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t bytes);
  bool (*is_finalized)(void* context);
  void* (*offset_to_addr)(void* context, size_t offset);
  enum xnn_status (*delete_cache)(void* context);
  enum xnn_status (*alias_data)(void* context, void* alias, void* original);
};

typedef struct xnn_subgraph* xnn_subgraph_t;
typedef struct xnn_runtime* xnn_runtime_t;
typedef struct xnn_workspace* xnn_workspace_t;
typedef struct xnn_weights_cache_provider* xnn_weights_cache_t;

struct xnn_allocator {
  void* context;
  void* (*allocate)(void* context, size_t size);
  void* (*reallocate)(void* context, void* block, size_t size);
  void (*deallocate)(void* context, void* block);
  void* (*aligned_allocate)(void* context, size_t alignment, size_t size);
  void (*aligned_deallocate)(void* context, void* block);
};

struct xnn_quantization_params;

enum xnn_status xnn_initialize(const struct xnn_allocator*);
const void* xnn_experimental_get_build_identifier_data(void);
size_t xnn_experimental_get_build_identifier_size(void);

enum xnn_status xnn_create_weights_cache(xnn_weights_cache_t* created);
enum xnn_status xnn_finalize_weights_cache(xnn_weights_cache_t, enum xnn_weights_cache_finalization_kind);
enum xnn_status xnn_delete_weights_cache(xnn_weights_cache_t);

enum xnn_status xnn_create_workspace(xnn_workspace_t* created);
enum xnn_status xnn_release_workspace(xnn_workspace_t);

enum xnn_status xnn_create_subgraph(uint32_t external_values, uint32_t flags, xnn_subgraph_t* created);
enum xnn_status xnn_delete_subgraph(xnn_subgraph_t);

// Values. dims has rank elements; id is where the new value's ID goes.
enum xnn_status xnn_define_tensor_value(
    xnn_subgraph_t, enum xnn_datatype, size_t rank, const size_t* dims, const void* data, uint32_t external, uint32_t flags,
    uint32_t* id);
enum xnn_status xnn_define_quantized_tensor_value(
    xnn_subgraph_t, enum xnn_datatype, int32_t zero_point, float scale, size_t rank, const size_t* dims, const void* data,
    uint32_t external, uint32_t flags, uint32_t* id);
enum xnn_status xnn_define_channelwise_quantized_tensor_value(
    xnn_subgraph_t, enum xnn_datatype, const float* scales, size_t rank, size_t channel_dim, const size_t* dims,
    const void* data, uint32_t external, uint32_t flags, uint32_t* id);
enum xnn_status xnn_define_channelwise_quantized_tensor_value_v2(
    xnn_subgraph_t, enum xnn_datatype, int32_t zero_point, const float* scales, size_t rank, size_t channel_dim,
    const size_t* dims, const void* data, uint32_t external, uint32_t flags, uint32_t* id);
enum xnn_status xnn_define_blockwise_quantized_tensor_value(
    xnn_subgraph_t, enum xnn_datatype, int32_t zero_point, const uint16_t* bfloat16_scales, size_t rank, size_t channel_dim,
    size_t block_size, const size_t* dims, const void* data, uint32_t external, uint32_t flags, uint32_t* id);
enum xnn_status xnn_define_dynamically_quantized_tensor_value(
    xnn_subgraph_t, enum xnn_datatype, size_t rank, size_t non_batch_dims, const size_t* dims, uint32_t external,
    uint32_t flags, uint32_t* id);

// Nodes. Values are named by their IDs.
enum xnn_status xnn_define_fully_connected(
    xnn_subgraph_t, float min, float max, uint32_t in, uint32_t filter, uint32_t bias, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_convolution_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t kernel_height,
    uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width, uint32_t dilation_height, uint32_t dilation_width,
    uint32_t groups, size_t group_in_channels, size_t group_out_channels, float min, float max, uint32_t in, uint32_t filter,
    uint32_t bias, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_depthwise_convolution_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t kernel_height,
    uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width, uint32_t dilation_height, uint32_t dilation_width,
    uint32_t multiplier, size_t in_channels, float min, float max, uint32_t in, uint32_t filter, uint32_t bias, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_deconvolution_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t adjust_height,
    uint32_t adjust_width, uint32_t kernel_height, uint32_t kernel_width, uint32_t stride_height, uint32_t stride_width,
    uint32_t dilation_height, uint32_t dilation_width, uint32_t groups, size_t group_in_channels, size_t group_out_channels,
    float min, float max, uint32_t in, uint32_t filter, uint32_t bias, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_batch_matrix_multiply(xnn_subgraph_t, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_unary(
    xnn_subgraph_t, enum xnn_unary_operator, const union xnn_unary_params*, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_binary(
    xnn_subgraph_t, enum xnn_binary_operator, const struct xnn_binary_params*, uint32_t a, uint32_t b, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_max_pooling_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t height,
    uint32_t width, uint32_t stride_height, uint32_t stride_width, uint32_t dilation_height, uint32_t dilation_width,
    float min, float max, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_average_pooling_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t height,
    uint32_t width, uint32_t stride_height, uint32_t stride_width, float min, float max, uint32_t in, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_static_reduce_v2(
    xnn_subgraph_t, enum xnn_reduce_operator, size_t axes, const int64_t* axis, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_constant_pad(
    xnn_subgraph_t, const size_t* before, const size_t* after, float value, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_reshape(
    xnn_subgraph_t, size_t rank, const size_t* dims, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_transpose(
    xnn_subgraph_t, size_t rank, const size_t* permutation, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_slice(
    xnn_subgraph_t, size_t rank, const size_t* offsets, const size_t* sizes, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_resize_bilinear_2d(
    xnn_subgraph_t, size_t height, size_t width, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_concatenate2(
    xnn_subgraph_t, int32_t axis, uint32_t in1, uint32_t in2, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_concatenate3(
    xnn_subgraph_t, int32_t axis, uint32_t in1, uint32_t in2, uint32_t in3, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_concatenate4(
    xnn_subgraph_t, int32_t axis, uint32_t in1, uint32_t in2, uint32_t in3, uint32_t in4, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_concatenate5(
    xnn_subgraph_t, int32_t axis, uint32_t in1, uint32_t in2, uint32_t in3, uint32_t in4, uint32_t in5, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_even_split2(
    xnn_subgraph_t, int32_t axis, uint32_t in, uint32_t out1, uint32_t out2, uint32_t flags);
enum xnn_status xnn_define_even_split3(
    xnn_subgraph_t, int32_t axis, uint32_t in, uint32_t out1, uint32_t out2, uint32_t out3, uint32_t flags);
enum xnn_status xnn_define_even_split4(
    xnn_subgraph_t, int32_t axis, uint32_t in, uint32_t out1, uint32_t out2, uint32_t out3, uint32_t out4, uint32_t flags);
enum xnn_status xnn_define_softmax(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_copy(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_depth_to_space_2d(xnn_subgraph_t, uint32_t block, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_space_to_depth_2d(xnn_subgraph_t, uint32_t block, uint32_t in, uint32_t out, uint32_t flags);

// Values and nodes that this project does not define.
enum xnn_status xnn_define_argmax_pooling_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t height,
    uint32_t width, uint32_t in, uint32_t out, uint32_t index, uint32_t flags);
enum xnn_status xnn_define_blockwise_quantized_tensor_value_v2(
    xnn_subgraph_t, enum xnn_datatype, int32_t zero_point, const void* scales, size_t rank, size_t channel_dim,
    size_t block_size, const size_t* dims, const void* data, uint32_t external, uint32_t flags,
    enum xnn_datatype scale_type, uint32_t* id);
enum xnn_status xnn_define_channelwise_quantized_tensor_value_v3(
    xnn_subgraph_t, enum xnn_datatype, int32_t zero_point, const float* scales, size_t rank, size_t channel_dim,
    const size_t* dims, const void* data, uint32_t external, uint32_t flags, uint32_t* id, const float* zero_points);
enum xnn_status xnn_define_concatenate(
    xnn_subgraph_t, int32_t axis, size_t count, const uint32_t* inputs, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_depth_to_space(
    xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t block_size, uint32_t flags);
enum xnn_status xnn_define_even_split(
    xnn_subgraph_t, int32_t axis, uint32_t in, size_t count, const uint32_t* outputs, uint32_t flags);
enum xnn_status xnn_define_fully_connected_sparse(
    xnn_subgraph_t, float min, float max, uint32_t in, uint32_t filter, uint32_t bias, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_fuse_dims(
    xnn_subgraph_t, size_t axis, size_t axes, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_rope(
    xnn_subgraph_t, size_t most_tokens, uint32_t in, uint32_t weights, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_split_dim(
    xnn_subgraph_t, size_t axis, size_t rank, const size_t* dims, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_broadcast(
    xnn_subgraph_t, size_t rank, const size_t* dims, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_constant_pad_v2(
    xnn_subgraph_t, size_t rank, const size_t* before, const size_t* after, float value, uint32_t in, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_static_expand_dims(
    xnn_subgraph_t, size_t axes, const size_t* axis, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_reduce(
    xnn_subgraph_t, enum xnn_reduce_operator, size_t axes, const size_t* axis, uint32_t in, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_static_slice_v2(
    xnn_subgraph_t, size_t rank, const int64_t* offsets, const size_t* sizes, uint32_t in, uint32_t out,
    uint32_t flags);
enum xnn_status xnn_define_static_slice_v3(
    xnn_subgraph_t, size_t rank, const int64_t* begins, const int64_t* ends, const int64_t* strides, uint32_t in,
    uint32_t out, uint32_t flags);
enum xnn_status xnn_define_unpooling_2d(
    xnn_subgraph_t, uint32_t pad_top, uint32_t pad_right, uint32_t pad_bottom, uint32_t pad_left, uint32_t height,
    uint32_t width, uint32_t in, uint32_t index, uint32_t out, uint32_t flags);

// Those that xnn_define_unary, xnn_define_binary and xnn_define_static_reduce_v2 have taken the place of.
enum xnn_status xnn_define_abs(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_add2(
    xnn_subgraph_t, float min, float max, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_bankers_rounding(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_ceiling(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_clamp(xnn_subgraph_t, float min, float max, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_convert(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_copysign(xnn_subgraph_t, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_divide(
    xnn_subgraph_t, float min, float max, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_elu(xnn_subgraph_t, float alpha, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_exp(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_floor(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_gelu(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_global_average_pooling_1d(
    xnn_subgraph_t, float min, float max, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_global_average_pooling_2d(
    xnn_subgraph_t, float min, float max, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_global_sum_pooling_1d(
    xnn_subgraph_t, float min, float max, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_global_sum_pooling_2d(
    xnn_subgraph_t, float min, float max, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_hardswish(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_leaky_relu(xnn_subgraph_t, float negative_slope, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_log(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_maximum2(xnn_subgraph_t, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_minimum2(xnn_subgraph_t, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_multiply2(
    xnn_subgraph_t, float min, float max, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_negate(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_prelu(xnn_subgraph_t, uint32_t in, uint32_t slope, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_reciprocal_square_root(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_sigmoid(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_square(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_square_root(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_squared_difference(xnn_subgraph_t, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_static_mean(
    xnn_subgraph_t, size_t axes, const size_t* axis, uint32_t in, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_subtract(
    xnn_subgraph_t, float min, float max, uint32_t a, uint32_t b, uint32_t out, uint32_t flags);
enum xnn_status xnn_define_tanh(xnn_subgraph_t, uint32_t in, uint32_t out, uint32_t flags);

// Runtimes.
enum xnn_status xnn_create_runtime_v3(
    xnn_subgraph_t, xnn_weights_cache_t, pthreadpool_t, uint32_t flags, xnn_runtime_t* created);
enum xnn_status xnn_create_runtime_v4(
    xnn_subgraph_t, xnn_weights_cache_t, xnn_workspace_t, pthreadpool_t, uint32_t flags, xnn_runtime_t* created);
enum xnn_status xnn_delete_runtime(xnn_runtime_t);
enum xnn_status xnn_reshape_external_value(xnn_runtime_t, uint32_t id, size_t rank, const size_t* dims);
enum xnn_status xnn_get_external_value_shape(xnn_runtime_t, uint32_t id, size_t* rank, size_t* dims);
enum xnn_status xnn_reshape_runtime(xnn_runtime_t);
enum xnn_status xnn_setup_runtime_v2(xnn_runtime_t, size_t count, const struct xnn_external_value*);
enum xnn_status xnn_invoke_runtime(xnn_runtime_t);
enum xnn_status xnn_get_runtime_profiling_info(
    xnn_runtime_t, enum xnn_profile_info, size_t capacity, void* info, size_t* needed);

// One operator, at once.
enum xnn_status xnn_run_unary_elementwise_nc(
    enum xnn_unary_operator, enum xnn_datatype in_type, enum xnn_datatype out_type, const union xnn_unary_params*,
    const struct xnn_quantization_params* in_quantization, const struct xnn_quantization_params* out_quantization,
    uint32_t flags, size_t batch, size_t channels, size_t in_stride, size_t out_stride, pthreadpool_t, const void* in,
    void* out);

#ifdef __cplusplus
}
#endif

#endif
