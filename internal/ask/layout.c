// Asks XNNPACK how it packs: fixed tensors of every weight-carrying operator family and datatype go through a provider
// that hashes the packed bytes. The hash changes exactly when packing does, whatever the reason: another CPU, a
// hypervisor's mask, another version of XNNPACK.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

// The shapes: odd, and larger than any tile of a micro-kernel, so that tile sizes and the padding of tails show. Two
// output channels select the narrow kernels some families have, and channels that fill whole tiles select the kernels
// that XNNPACK of 2026 has for them.
enum {
  input_channels = 38,
  image_channels = 11,
  blockwise_input_channels = 96,
  block_size = 32,
  output_channels = 67,
  even_output_channels = 64,
  few_output_channels = 2,
  kernel_height = 3,
  kernel_width = 3,
  alignment = 128,
  max_elements = kernel_height * kernel_width * output_channels * image_channels,
};

struct probe {
  enum xpwc_operator op;
  enum xnn_datatype input;
  enum xnn_datatype kernel;
  enum xnn_datatype bias; // xnn_datatype_invalid: none
  enum xnn_datatype output;
  size_t outputs;
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
#define BF16 xnn_datatype_bf16
#define QC2 ((enum xnn_datatype)xpwc_datatype_qcint2)
#define NONE xnn_datatype_invalid
  {xpwc_fully_connected, F32, F32, F32, F32, output_channels, 0},
  {xpwc_fully_connected, F32, F32, F32, F32, even_output_channels, 0},
  {xpwc_fully_connected, F32, F32, F32, F32, few_output_channels, 0},
  {xpwc_fully_connected, F32, F32, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, F16, F16, F16, F16, output_channels, 0},
  {xpwc_fully_connected, F16, F16, F16, F16, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, F16, F32, F32, F16, output_channels, 0},
  {xpwc_fully_connected, F32, QC8, F32, F32, output_channels, 0},
  {xpwc_fully_connected, F32, QC8, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, F32, QC4, F32, F32, output_channels, 0},
  {xpwc_fully_connected, QS8, QS8, S32, QS8, output_channels, 0},
  {xpwc_fully_connected, QS8, QS8, S32, QS8, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, QU8, QU8, S32, QU8, output_channels, 0},
  {xpwc_fully_connected, QU8, QU8, S32, QU8, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, QS8, QC8, C32, QS8, output_channels, 0},
  {xpwc_fully_connected, QS8, QC8, C32, QS8, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, QD8, QC8, F32, F32, output_channels, 0},
  {xpwc_fully_connected, QD8, QC8, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, QD8, QC4, F32, F32, output_channels, 0},
  {xpwc_fully_connected, QD8, QC4, F32, F32, output_channels, XNN_FLAG_TRANSPOSE_WEIGHTS},
  {xpwc_fully_connected, QD8, QB4, F32, F32, output_channels, 0},
  {xpwc_fully_connected, QD8, QC8, F32, F16, output_channels, 0},
  {xpwc_fully_connected, QD8, QC4, F32, F16, output_channels, 0},
  {xpwc_fully_connected, QD8, QB4, F32, F16, output_channels, 0},
  {xpwc_convolution, F32, F32, F32, F32, output_channels, 0},
  {xpwc_convolution, F32, F32, F32, F32, even_output_channels, 0},
  {xpwc_convolution, F32, F32, F32, F32, few_output_channels, 0},
  {xpwc_convolution, F16, F32, F32, F16, output_channels, 0},
  {xpwc_convolution, QS8, QS8, S32, QS8, output_channels, 0},
  {xpwc_convolution, QU8, QU8, S32, QU8, output_channels, 0},
  {xpwc_convolution, QS8, QC8, C32, QS8, output_channels, 0},
  {xpwc_convolution, QD8, QC8, F32, F32, output_channels, 0},
  {xpwc_convolution, QD8, QC8, F32, F16, output_channels, 0},
  {xpwc_depthwise_convolution, F32, F32, F32, F32, output_channels, 0},
  {xpwc_depthwise_convolution, F16, F32, F32, F16, output_channels, 0},
  {xpwc_depthwise_convolution, QS8, QS8, S32, QS8, output_channels, 0},
  {xpwc_depthwise_convolution, QU8, QU8, S32, QU8, output_channels, 0},
  {xpwc_depthwise_convolution, QS8, QC8, C32, QS8, output_channels, 0},
  {xpwc_deconvolution, F32, F32, F32, F32, output_channels, 0},
  {xpwc_deconvolution, F32, F32, F32, F32, few_output_channels, 0},
  {xpwc_deconvolution, F16, F32, F32, F16, output_channels, 0},
  {xpwc_deconvolution, QS8, QS8, S32, QS8, output_channels, 0},
  {xpwc_deconvolution, QU8, QU8, S32, QU8, output_channels, 0},
  {xpwc_deconvolution, QS8, QC8, C32, QS8, output_channels, 0},
  {xpwc_deconvolution, QD8, QC8, F32, F32, output_channels, 0},
  {xpwc_batch_matrix_multiply, F32, F32, NONE, F32, output_channels, 0},
  {xpwc_batch_matrix_multiply, F32, F32, NONE, F32, output_channels, XNN_FLAG_TRANSPOSE_B},
  {xpwc_batch_matrix_multiply, F16, F16, NONE, F16, output_channels, 0},
  {xpwc_batch_matrix_multiply, QD8, QC8, NONE, F32, output_channels, 0},
};

// What XNNPACK has learnt since. Where it does not support one of these, that leaves no trace in the hash, which is as it
// was before they were asked.
static const struct probe newer_probes[] = {
  {xpwc_fully_connected, F32, F16, F32, F32, output_channels, 0},
  {xpwc_fully_connected, BF16, BF16, F32, F32, output_channels, 0},
  {xpwc_fully_connected, QD8, QC2, F32, F32, output_channels, 0},
  {xpwc_fully_connected, QD8, QC2, F32, F16, output_channels, 0},
  {xpwc_fully_connected, QD8, QB4, F32, BF16, output_channels, 0},
  {xpwc_fully_connected, QS8, QC4, C32, QS8, output_channels, 0},
  {xpwc_fully_connected, QS8, QC2, C32, QS8, output_channels, 0},
  {xpwc_convolution, F32, F16, F32, F32, output_channels, 0},
  {xpwc_convolution, F16, F16, F16, F16, output_channels, 0},
  {xpwc_depthwise_convolution, F32, F16, F32, F32, output_channels, 0},
  {xpwc_depthwise_convolution, F16, F16, F16, F16, output_channels, 0},
  {xpwc_deconvolution, F32, F16, F32, F32, output_channels, 0},
  {xpwc_batch_matrix_multiply, BF16, BF16, NONE, F32, output_channels, 0},
  {xpwc_batch_matrix_multiply, F32, QC8, NONE, F32, output_channels, 0},
};

// What the tensors of all probes are made of, and where what was packed goes.
struct recorder {
  uintptr_t sample; // that the bytes go into
  bool out_of_memory;

  void* reserved;

  float f32[max_elements];
  uint16_t f16[max_elements];
  uint8_t integers[max_elements];
  int32_t bias[output_channels];
  float scales[output_channels];
  uint16_t block_scales[blockwise_input_channels / block_size * output_channels];
};

static size_t miss(void* context, const struct xnn_weights_cache_look_up_key* key) {
  (void)context;
  (void)key;
  return SIZE_MAX;
}

static void* reserve_sample(void* context, size_t n) {
  struct recorder* r = context;
  free(r->reserved);
  r->reserved = malloc(n + alignment);
  r->out_of_memory = r->out_of_memory || r->reserved == NULL;
  return r->reserved == NULL ? NULL : (char*)r->reserved + alignment - (uintptr_t)r->reserved % alignment;
}

// The seed is not recorded: it is no part of the bytes, and batch matrix multiply makes it of addresses.
static size_t record_sample(
    void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  struct recorder* r = context;
  xpwcSampleBytes(r->sample, xpwc_fingerprint_id(key), packed, size);
  return (size_t)packed; // the runtime is deleted without being set up
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

static struct xpwc_node node_of(const struct probe* p) {
  const size_t oc = p->outputs;
  const size_t ic = p->kernel == QB4 ? blockwise_input_channels : input_channels;
  const bool transposed = (p->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0; // which is XNN_FLAG_TRANSPOSE_B too
  struct xpwc_node n = {
      .op = p->op,
      .input = p->input,
      .kernel = p->kernel,
      .bias = p->bias,
      .output = p->output,
      .flags = p->flags,
      .dims = 4,
      .shape = {oc, kernel_height, kernel_width, image_channels},
      .block_size = block_size,
      .groups = 1,
      .stride_height = 1,
      .stride_width = 1,
      .dilation_height = 1,
      .dilation_width = 1,
  };
  switch (p->op) {
    case xpwc_fully_connected:
      n.dims = 2;
      n.shape[0] = transposed ? ic : oc;
      n.shape[1] = transposed ? oc : ic;
      n.channel_dim = transposed ? 1 : 0;
      break;
    case xpwc_batch_matrix_multiply:
      n.dims = 3;
      n.shape[0] = 1;
      n.shape[1] = transposed ? oc : ic;
      n.shape[2] = transposed ? ic : oc;
      n.channel_dim = transposed ? 1 : 2;
      break;
    case xpwc_depthwise_convolution:
      n.shape[0] = 1;
      n.shape[3] = oc;
      n.channel_dim = 3;
      break;
    default:
      break;
  }
  return n;
}

// Packs for count nodes at once, in one runtime.
static enum xnn_status pack(const struct xpwc_node* nodes, size_t count, struct recorder* r) {
  struct xpwc_bare_provider provider;
  xpwc_bare_provider_init(&provider, r, miss, reserve_sample, record_sample);
  const struct xpwc_content content = {r->f32, r->f16, r->integers, r->bias, r->scales, r->block_scales};
  return xpwc_pack_nodes(nodes, count, &content, &provider);
}

// Where this XNNPACK or this CPU does not support all probes, each is made alone, and one that is not supported leaves its
// status in the hash.
static void run_older_probes(struct recorder* r) {
  enum { count = sizeof(probes) / sizeof(probes[0]) };
  struct xpwc_node nodes[count];
  for (size_t i = 0; i < count; i++) {
    nodes[i] = node_of(&probes[i]);
  }
  if (pack(nodes, count, r) == xnn_status_success) {
    return;
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t outcome = (uint32_t)pack(&nodes[i], 1, r);
    xpwcSampleBytes(r->sample, 0, &outcome, sizeof(outcome));
  }
}

static void run_newer_probes(struct recorder* r) {
  for (size_t i = 0; i < sizeof(newer_probes) / sizeof(newer_probes[0]); i++) {
    const struct xpwc_node node = node_of(&newer_probes[i]);
    pack(&node, 1, r);
  }
}

static enum xnn_status record_for(uintptr_t sample, struct recorder** recorder) {
  enum xnn_status status = xnn_initialize(NULL);
  if (status != xnn_status_success) {
    return status;
  }
  struct recorder* r = malloc(sizeof(*r));
  if (r == NULL) {
    return xnn_status_out_of_memory;
  }
  r->sample = sample;
  r->out_of_memory = false;
  r->reserved = NULL;
  make_tensors(r);
  *recorder = r;
  return xnn_status_success;
}

static enum xnn_status end_record(struct recorder* r, enum xnn_status status) {
  free(r->reserved);
  if (r->out_of_memory) {
    status = xnn_status_out_of_memory;
  }
  free(r);
  return status;
}

enum xnn_status xpwc_probe_layout(uintptr_t sample) {
  struct recorder* r = NULL;
  enum xnn_status status = record_for(sample, &r);
  if (status != xnn_status_success) {
    return status;
  }
  run_older_probes(r);
  run_newer_probes(r);
  return end_record(r, xnn_status_success);
}

// Whether a probe is of a family. XNNPACK packs zeros for a bias that there is not.
static bool is_of(const struct probe* p, const struct xpwc_node* family) {
  return p->op == family->op && p->input == family->input && p->kernel == family->kernel && p->output == family->output &&
         (p->bias == family->bias || family->bias == NONE);
}

enum { most_of_a_family = 8 };

// The nodes of a sample of a family.
struct family_nodes {
  struct xpwc_node nodes[most_of_a_family];
  size_t count;
};

// Adds the nodes of the probes that are of a family, one for each side of a square kernel if there are any.
static void collect(
    const struct probe* of, size_t count, const struct xpwc_node* family, const size_t* sides, size_t sides_count,
    struct family_nodes* found) {
  for (size_t i = 0; i < count; i++) {
    if (!is_of(&of[i], family)) {
      continue;
    }
    struct xpwc_node node = node_of(&of[i]);
    for (size_t k = 0; k < (sides_count == 0 ? 1 : sides_count) && found->count < most_of_a_family; k++) {
      if (sides_count > 0) {
        node.shape[1] = node.shape[2] = sides[k];
      }
      found->nodes[found->count++] = node;
    }
  }
}

enum xnn_status xpwc_probe_family(
    const struct xpwc_node* family, const size_t* sides, size_t sides_count, uintptr_t sample, bool* transposed) {
  struct family_nodes found = {.count = 0};
  collect(probes, sizeof(probes) / sizeof(probes[0]), family, sides, sides_count, &found);
  collect(newer_probes, sizeof(newer_probes) / sizeof(newer_probes[0]), family, sides, sides_count, &found);
  if (found.count == 0) {
    return xnn_status_unsupported_parameter;
  }
  *transposed = false;
  for (size_t i = 0; i < found.count; i++) { // the flag is XNN_FLAG_TRANSPOSE_B too
    *transposed = *transposed || (found.nodes[i].flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
  }
  struct recorder* r = NULL;
  enum xnn_status status = record_for(sample, &r);
  if (status != xnn_status_success) {
    return status;
  }
  return end_record(r, pack(found.nodes, found.count, r));
}
