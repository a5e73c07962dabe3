// Asks XNNPACK how it packs: fixed tensors of every weight-carrying operator family and datatype go through a provider
// that hashes the packed bytes. The hash changes exactly when packing does, whatever the reason: another CPU, a
// hypervisor's mask, another version of XNNPACK.

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "callbacks.h"

#include "_cgo_export.h"

#ifdef _WIN32 /* which has no aligned_alloc, and frees what is aligned by a call of its own */
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define aligned_free _aligned_free
#else
#define aligned_free free
#endif

// The shapes: odd, and larger than any tile of a micro-kernel, so that tile sizes and the padding of tails show. Two
// output channels select the narrow kernels some families have.
enum {
  input_channels = 38,
  image_channels = 11,
  blockwise_input_channels = 96,
  block_size = 32,
  output_channels = 67,
  few_output_channels = 2,
  kernel_height = 3,
  kernel_width = 3,
  image_size = 5,
  alignment = 128,
  max_elements = kernel_height * kernel_width * output_channels * image_channels,
};

enum family { fully_connected, convolution, depthwise, deconvolution, batch_matrix_multiply };

struct probe {
  enum family family;
  enum xnn_datatype input;
  enum xnn_datatype kernel;
  enum xnn_datatype bias; // xnn_datatype_invalid: none
  enum xnn_datatype output;
  uint32_t outputs;
  uint32_t flags;
};

static const struct probe probes[] = {
#define F32 xnn_datatype_fp32
#define F16 xnn_datatype_fp16
#define QS8 xnn_datatype_qint8
#define QU8 xnn_datatype_quint8
#define QC8 xnn_datatype_qcint8
#define QC4 xnn_datatype_qcint4
#define QB4 xnn_datatype_qbint4
#define QD8 xnn_datatype_qdint8
#define S32 xnn_datatype_qint32
#define C32 xnn_datatype_qcint32
  {fully_connected, F32, F32, F32, F32, output_channels, 0},
  {fully_connected, F32, F32, F32, F32, few_output_channels, 0},
  {fully_connected, F32, F32, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, F16, F16, F16, F16, output_channels, 0},
  {fully_connected, F16, F16, F16, F16, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, F16, F32, F32, F16, output_channels, 0},
  {fully_connected, F32, QC8, F32, F32, output_channels, 0},
  {fully_connected, F32, QC8, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, F32, QC4, F32, F32, output_channels, 0},
  {fully_connected, QS8, QS8, S32, QS8, output_channels, 0},
  {fully_connected, QS8, QS8, S32, QS8, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, QU8, QU8, S32, QU8, output_channels, 0},
  {fully_connected, QU8, QU8, S32, QU8, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, QS8, QC8, C32, QS8, output_channels, 0},
  {fully_connected, QS8, QC8, C32, QS8, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, QD8, QC8, F32, F32, output_channels, 0},
  {fully_connected, QD8, QC8, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, QD8, QC4, F32, F32, output_channels, 0},
  {fully_connected, QD8, QC4, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {fully_connected, QD8, QB4, F32, F32, output_channels, 0},
  {fully_connected, QD8, QC8, F32, F16, output_channels, 0},
  {fully_connected, QD8, QC4, F32, F16, output_channels, 0},
  {fully_connected, QD8, QB4, F32, F16, output_channels, 0},
  {convolution, F32, F32, F32, F32, output_channels, 0},
  {convolution, F32, F32, F32, F32, few_output_channels, 0},
  {convolution, F16, F32, F32, F16, output_channels, 0},
  {convolution, QS8, QS8, S32, QS8, output_channels, 0},
  {convolution, QU8, QU8, S32, QU8, output_channels, 0},
  {convolution, QS8, QC8, C32, QS8, output_channels, 0},
  {convolution, QD8, QC8, F32, F32, output_channels, 0},
  {convolution, QD8, QC8, F32, F16, output_channels, 0},
  {depthwise, F32, F32, F32, F32, output_channels, 0},
  {depthwise, F16, F32, F32, F16, output_channels, 0},
  {depthwise, QS8, QS8, S32, QS8, output_channels, 0},
  {depthwise, QU8, QU8, S32, QU8, output_channels, 0},
  {depthwise, QS8, QC8, C32, QS8, output_channels, 0},
  {deconvolution, F32, F32, F32, F32, output_channels, 0},
  {deconvolution, F32, F32, F32, F32, few_output_channels, 0},
  {deconvolution, F16, F32, F32, F16, output_channels, 0},
  {deconvolution, QS8, QS8, S32, QS8, output_channels, 0},
  {deconvolution, QU8, QU8, S32, QU8, output_channels, 0},
  {deconvolution, QS8, QC8, C32, QS8, output_channels, 0},
  {deconvolution, QD8, QC8, F32, F32, output_channels, 0},
  {batch_matrix_multiply, F32, F32, xnn_datatype_invalid, F32, output_channels, 0},
  {batch_matrix_multiply, F32, F32, xnn_datatype_invalid, F32, output_channels, XNN_FLAG_TRANSPOSE_B},
  {batch_matrix_multiply, F16, F16, xnn_datatype_invalid, F16, output_channels, 0},
  {batch_matrix_multiply, QD8, QC8, xnn_datatype_invalid, F32, output_channels, 0},
};

// What the tensors of all probes are made of, and where what was packed goes.
struct recorder {
  uintptr_t hash; // that the bytes go into
  bool out_of_memory;

  void* reserved;

  float f32[max_elements];
  uint16_t f16[max_elements];
  uint8_t integers[max_elements];
  int32_t bias[output_channels];
  float scales[output_channels];
  uint16_t block_scales[blockwise_input_channels / block_size * output_channels];
};

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  (void)context;
  (void)key;
  return SIZE_MAX;
}

static void* reserve_space(void* context, size_t n) {
  struct recorder* r = context;
  aligned_free(r->reserved);
  r->reserved = aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
  r->out_of_memory = r->out_of_memory || r->reserved == NULL;
  return r->reserved;
}

// The seed is not recorded: it is no part of the bytes, and batch matrix multiply makes it of addresses.
static size_t look_up_or_insert(
    void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  (void)key;
  struct recorder* r = context;
  xpwcLayoutBytes(r->hash, packed, size);
  return (size_t)packed; // the runtime is deleted without being set up
}

static bool is_finalized(void* context) {
  (void)context;
  return false;
}

static void* offset_to_addr(void* context, size_t offset) {
  (void)context;
  return (void*)offset;
}

static enum xnn_status delete_cache(void* context) {
  (void)context;
  return xnn_status_success;
}

static void make_tensors(struct recorder* r) {
  uint32_t state = 1;
  for (size_t i = 0; i < max_elements; i++) {
    state = state * 1664525 + 1013904223;
    r->integers[i] = (uint8_t)(state >> 24);
    r->f32[i] = (float)(state >> 16) / 65536.0f - 0.5f;
    r->f16[i] = (uint16_t)(0x3000 | (state >> 20)); // from 0.125 to 1.999
  }
  for (size_t i = 0; i < output_channels; i++) {
    r->bias[i] = (int32_t)(i * 2654435761u) >> 12;
  }
  for (size_t i = 0; i < sizeof(r->scales) / sizeof(r->scales[0]); i++) {
    r->scales[i] = 0.001f * (float)(i % 251 + 1);
  }
  for (size_t i = 0; i < sizeof(r->block_scales) / sizeof(r->block_scales[0]); i++) {
    r->block_scales[i] = (uint16_t)(0x3c00 + i % 251); // bfloat16
  }
}

static const void* content(const struct recorder* r, enum xnn_datatype type) {
  switch (type) {
    case F32:
      return r->f32;
    case F16:
      return r->f16;
    case S32:
    case C32:
      return r->bias;
    default:
      return r->integers;
  }
}

static enum xnn_status define_value(
    xnn_subgraph_t subgraph, enum xnn_datatype type, size_t dims_count, const size_t* dims, size_t channel_dim,
    const struct recorder* content_of, uint32_t external_id, uint32_t flags, uint32_t* id) {
  const void* data = content_of == NULL ? NULL : content(content_of, type);
  switch (type) {
    case F32:
    case F16:
      return xnn_define_tensor_value(subgraph, type, dims_count, dims, data, external_id, flags, id);
    case QS8:
      return xnn_define_quantized_tensor_value(subgraph, type, 0, 0.5f, dims_count, dims, data, external_id, flags, id);
    case QU8:
      return xnn_define_quantized_tensor_value(
          subgraph, type, 127, 0.5f, dims_count, dims, data, external_id, flags, id);
    case S32:
      return xnn_define_quantized_tensor_value(
          subgraph, type, 0, 0.25f, dims_count, dims, data, external_id, flags, id);
    case QB4:
      return xnn_define_blockwise_quantized_tensor_value(
          subgraph, type, 8, content_of->block_scales, dims_count, channel_dim, block_size, dims, data, external_id,
          flags, id);
    case QD8:
      return xnn_define_dynamically_quantized_tensor_value(
          subgraph, type, dims_count, dims_count == 4 ? 3 : 1, dims, external_id, flags, id);
    case QC4:
      return xnn_define_channelwise_quantized_tensor_value_v2(
          subgraph, type, 8, content_of->scales, dims_count, channel_dim, dims, data, external_id, flags, id);
    default:
      return xnn_define_channelwise_quantized_tensor_value_v2(
          subgraph, type, 0, content_of->scales, dims_count, channel_dim, dims, data, external_id, flags, id);
  }
}

// The external values of the node are first_id and the next.
static enum xnn_status define_node(
    xnn_subgraph_t subgraph, const struct probe* p, const struct recorder* r, uint32_t first_id) {
  const size_t oc = p->outputs;
  const bool transposed = (p->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
  const bool image = p->family == convolution || p->family == depthwise || p->family == deconvolution;
  const size_t ic = image ? image_channels : p->kernel == QB4 ? blockwise_input_channels : input_channels;

  const size_t image_input[] = {1, image_size, image_size, p->family == depthwise ? oc : ic};
  const size_t row_input[] = {1, 1, ic};
  const size_t image_kernel[] = {p->family == depthwise ? 1 : oc, kernel_height, kernel_width,
                                 p->family == depthwise ? oc : ic};
  const size_t fc_kernel[] = {transposed ? ic : oc, transposed ? oc : ic};
  const bool b_transposed = (p->flags & XNN_FLAG_TRANSPOSE_B) != 0;
  const size_t bmm_kernel[] = {1, b_transposed ? oc : ic, b_transposed ? ic : oc};
  const size_t bias[] = {oc};
  const size_t image_output[] = {1, 0, 0, oc};
  const size_t row_output[] = {1, 1, oc};

  const size_t input_dims = image ? 4 : p->family == fully_connected ? 2 : 3;
  const size_t* input_shape = image ? image_input : p->family == fully_connected ? row_input + 1 : row_input;
  const size_t output_dims = input_dims;
  size_t sized_output[4];
  memcpy(sized_output, image_output, sizeof(sized_output));
  sized_output[1] = sized_output[2] =
      p->family == deconvolution ? image_size + kernel_height - 1 : image_size - kernel_height + 1;
  const size_t* output_shape = image ? sized_output : p->family == fully_connected ? row_output + 1 : row_output;

  uint32_t input_id = XNN_INVALID_VALUE_ID, kernel_id = XNN_INVALID_VALUE_ID, bias_id = XNN_INVALID_VALUE_ID,
           output_id = XNN_INVALID_VALUE_ID;

  // A dynamically quantised input is the product of a conversion.
  const enum xnn_datatype given = p->input == QD8 ? p->output : p->input;
  enum xnn_status status = define_value(
      subgraph, given, input_dims, input_shape, 0, NULL, first_id, XNN_VALUE_FLAG_EXTERNAL_INPUT, &input_id);
  if (status == xnn_status_success && p->input == QD8) {
    uint32_t converted = XNN_INVALID_VALUE_ID;
    status =
        define_value(subgraph, QD8, input_dims, input_shape, 0, NULL, XNN_INVALID_VALUE_ID, 0, &converted);
    if (status == xnn_status_success) {
      status = xnn_define_unary(subgraph, xnn_unary_convert, NULL, input_id, converted, 0);
    }
    input_id = converted;
  }
  if (status == xnn_status_success) {
    const size_t* kernel_shape = image ? image_kernel : p->family == fully_connected ? fc_kernel : bmm_kernel;
    const size_t kernel_dims = image ? 4 : p->family == fully_connected ? 2 : 3;
    const size_t channel_dim = p->family == depthwise                ? 3
                               : image                              ? 0
                               : p->family == batch_matrix_multiply ? (b_transposed ? 1 : 2)
                                                                    : (transposed ? 1 : 0);
    status = define_value(
        subgraph, p->kernel, kernel_dims, kernel_shape, channel_dim, r, XNN_INVALID_VALUE_ID, 0, &kernel_id);
  }
  if (status == xnn_status_success && p->bias != xnn_datatype_invalid) {
    status = define_value(subgraph, p->bias, 1, bias, 0, r, XNN_INVALID_VALUE_ID, 0, &bias_id);
  }
  if (status == xnn_status_success) {
    status = define_value(
        subgraph, p->output, output_dims, output_shape, 0, NULL, first_id + 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT,
        &output_id);
  }
  if (status != xnn_status_success) {
    return status;
  }
  switch (p->family) {
    case fully_connected:
      return xnn_define_fully_connected(
          subgraph, -INFINITY, INFINITY, input_id, kernel_id, bias_id, output_id, p->flags);
    case convolution:
      return xnn_define_convolution_2d(
          subgraph, 0, 0, 0, 0, kernel_height, kernel_width, 1, 1, 1, 1, /*groups=*/1, ic, oc, -INFINITY, INFINITY,
          input_id, kernel_id, bias_id, output_id, p->flags);
    case depthwise:
      return xnn_define_depthwise_convolution_2d(
          subgraph, 0, 0, 0, 0, kernel_height, kernel_width, 1, 1, 1, 1, /*depth_multiplier=*/1, oc, -INFINITY,
          INFINITY, input_id, kernel_id, bias_id, output_id, p->flags);
    case deconvolution:
      return xnn_define_deconvolution_2d(
          subgraph, 0, 0, 0, 0, 0, 0, kernel_height, kernel_width, 1, 1, 1, 1, /*groups=*/1, ic, oc, -INFINITY,
          INFINITY, input_id, kernel_id, bias_id, output_id, p->flags);
    case batch_matrix_multiply:
      return xnn_define_batch_matrix_multiply(subgraph, input_id, kernel_id, output_id, p->flags);
  }
  return xnn_status_invalid_parameter;
}

static bool uses_f16(const struct probe* p, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (p[i].input == F16 || p[i].kernel == F16 || p[i].bias == F16 || p[i].output == F16) {
      return true;
    }
  }
  return false;
}

// Packs for count probes at once, in one runtime.
static enum xnn_status pack(const struct probe* p, size_t count, struct recorder* r) {
  struct {
    struct xnn_weights_cache_provider callbacks;
    void (*unknown[8])(void);
  } provider;
  memset(&provider, 0, sizeof(provider));
  provider.callbacks.context = r;
  provider.callbacks.look_up = look_up;
  provider.callbacks.reserve_space = reserve_space;
  provider.callbacks.look_up_or_insert = look_up_or_insert;
  provider.callbacks.is_finalized = is_finalized;
  provider.callbacks.offset_to_addr = offset_to_addr;
  provider.callbacks.delete_cache = delete_cache;

  xnn_subgraph_t subgraph = NULL;
  xnn_runtime_t runtime = NULL;
  enum xnn_status status = xnn_create_subgraph(2 * (uint32_t)count, 0, &subgraph);
  for (size_t i = 0; i < count && status == xnn_status_success; i++) {
    status = define_node(subgraph, &p[i], r, 2 * (uint32_t)i);
  }
  bool abandon = false;
  if (status == xnn_status_success) {
    status = xnn_create_runtime_v4(subgraph, &provider.callbacks, NULL, NULL, 0, &runtime);
    // XNNPACK of 2026, on a CPU that converts float16 but computes nothing in it, makes the subgraph one of float32. If the runtime
    // cannot be created then, the constants that were converted are freed at once, and by xnn_delete_subgraph again, which ends the
    // process. So such a subgraph is left in memory: once in a process, for those probes that are not supported here.
    abandon = status != xnn_status_success && uses_f16(p, count);
  }
  if (runtime != NULL) {
    xnn_delete_runtime(runtime);
  }
  if (subgraph != NULL && !abandon) {
    xnn_delete_subgraph(subgraph);
  }
  return status;
}

// Where this XNNPACK or this CPU does not support all probes, each is made alone, and one that is not supported leaves its
// status in the hash.
static void run_probes(struct recorder* r) {
  const size_t count = sizeof(probes) / sizeof(probes[0]);
  if (pack(probes, count, r) == xnn_status_success) {
    return;
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t outcome = (uint32_t)pack(&probes[i], 1, r);
    xpwcLayoutBytes(r->hash, &outcome, sizeof(outcome));
  }
}

enum xnn_status xpwc_probe_layout(uintptr_t hash) {
  enum xnn_status status = xnn_initialize(NULL);
  if (status != xnn_status_success) {
    return status;
  }
  struct recorder* r = calloc(1, sizeof(*r));
  if (r == NULL) {
    return xnn_status_out_of_memory;
  }
  r->hash = hash;
  make_tensors(r);
  run_probes(r);
  aligned_free(r->reserved);
  if (r->out_of_memory) {
    status = xnn_status_out_of_memory;
  }
  free(r);
  return status;
}
