// How XNNPACK packs a kernel: the identity, its digest and its smallest size. A C version of package packing.
#ifndef XPWC_READER_IDENTITY_H
#define XPWC_READER_IDENTITY_H

#include "digest.h"
#include "internal/ask/node.h"
#include "xpwc.h"

enum {
  transposed = XPWC_PACKING_TRANSPOSED, padded = XPWC_PACKING_PADDED, half_precision = XPWC_PACKING_HALF_PRECISION,
  sparse_inference = XPWC_PACKING_SPARSE_INFERENCE, consistent_arithmetic = XPWC_PACKING_CONSISTENT_ARITHMETIC,
};

// Datatypes by number, as in package packing.
static const struct {
  uint8_t bits;
  bool is_float;
} datatypes[] = {{0, false}, {32, true}, {16, true},  {8, false},  {8, false}, {32, false}, {8, false},
                 {32, false}, {4, false}, {8, false}, {8, false},  {32, false}, {4, false}, {32, true},
                 {16, true},  {8, false}, {16, true}, {8, false},  {2, false}, {4, false},  {2, false}};

enum { datatypes_count = sizeof(datatypes) / sizeof(datatypes[0]) };

static unsigned bits_of(unsigned type) { return type < datatypes_count ? datatypes[type].bits : 0; }
static bool is_float(unsigned type) { return type < datatypes_count && datatypes[type].is_float; }

// The quantisation parameters of a datatype.
enum quantization { unquantized, per_tensor, per_channel, per_block, dynamic, unknown_quantization };

static enum quantization quantization_of(unsigned type) {
  switch (type) {
    case 3: case 4: case 5: return per_tensor;
    case 6: case 7: case 8: case 18: return per_channel;
    case 12: return per_block;
    case 9: case 10: case 15: return dynamic;
    case 0: case 11: return unquantized;
    default: return is_float(type) ? unquantized : unknown_quantization;
  }
}

// A packing identity of a kernel. An opaque one has no operator.
struct identity {
  digest digest;
  struct xpwc_node node;
  uint32_t flags; // XPWC_PACKING_...
};

// Returns the family encoded in 5 bytes: an operator, and the datatypes of its tensors.
static struct xpwc_node family_at(const uint8_t* b) {
  struct xpwc_node n;
  memset(&n, 0, sizeof(n));
  n.op = (enum xpwc_operator)b[0];
  n.input = (enum xnn_datatype)b[1];
  n.kernel = (enum xnn_datatype)b[2];
  n.bias = (enum xnn_datatype)b[3];
  n.output = (enum xnn_datatype)b[4];
  return n;
}

static void encode_operand(struct bytes* b, const struct xpwc_operand* o) {
  const enum quantization q = quantization_of(o->datatype);
  const bool unknown = q == unknown_quantization, channels = unknown || q == per_channel, blocks = unknown || q == per_block;
  append_u8(b, (uint8_t)o->datatype);
  if (unknown || q == per_tensor) {
    append(b, &o->scale, sizeof(o->scale));
  }
  if (channels || blocks || q == per_tensor) {
    append_u64(b, (uint64_t)(int64_t)o->zero_point);
  }
  if (channels || blocks) {
    append_u64(b, o->channel_dim);
  }
  if (channels) {
    append_u64(b, o->scale_count);
    append(b, o->scales, o->scale_count * sizeof(float));
  }
  if (blocks) {
    append_u64(b, o->block_size);
    append_u64(b, o->block_scale_count);
    append(b, o->block_scales, o->block_scale_count * sizeof(uint16_t));
  }
  if (unknown || q == dynamic) {
    append_u64(b, o->non_batch_dims);
  }
}

static uint32_t at_least_one(uint32_t n) { return n == 0 ? 1 : n; }

static bool is_operand(const struct xpwc_operand* o, uint64_t elements) {
  return o->datatype <= 255 && o->scale_count <= elements && o->block_scale_count <= elements &&
         (o->scale_count == 0 || o->scales != NULL) && (o->block_scale_count == 0 || o->block_scales != NULL);
}

// Reports whether the packing is valid, by the rules of xpwc_session_load.
static bool is_packing(const struct xpwc_packing* p) {
  if (p->struct_size != sizeof(*p) || p->operator_type > XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY) {
    return false;
  }
  if (p->operator_type == 0) {
    return p->opaque != NULL && p->opaque_size > 0;
  }
  if (p->opaque != NULL || p->dim_count == 0 || p->dim_count > XNN_MAX_TENSOR_DIMS || p->dims == NULL || p->flags >= 1 << 5) {
    return false;
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < p->dim_count; i++) {
    if (p->dims[i] == 0 || p->dims[i] > INT64_MAX / elements) {
      return false;
    }
    elements *= p->dims[i];
  }
  const bool hidden = quantization_of(p->input.datatype) == dynamic && p->bias.datatype != 0;
  return is_operand(&p->input, elements) && is_operand(&p->kernel, elements) && is_operand(&p->bias, elements) &&
         is_operand(&p->output, elements) && p->input.datatype != 0 && p->kernel.datatype != 0 &&
         p->output.datatype != 0 && (p->hidden_bias_size > 0 ? p->hidden_bias != NULL : !hidden);
}

static struct xpwc_node node_of_packing(const struct xpwc_packing* p) {
  const uint8_t family[] = {(uint8_t)p->operator_type, (uint8_t)p->input.datatype, (uint8_t)p->kernel.datatype,
                            (uint8_t)p->bias.datatype, (uint8_t)p->output.datatype};
  struct xpwc_node n = family_at(family);
  n.flags = (p->flags & transposed) != 0 ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0; // or XNN_FLAG_TRANSPOSE_B, which is the same
  n.runtime_flags = ((p->flags & sparse_inference) != 0 ? XNN_FLAG_HINT_SPARSE_INFERENCE : 0) |
                    ((p->flags & consistent_arithmetic) != 0 ? xpwc_slow_consistent_arithmetic : 0);
  n.padding = (p->flags & padded) != 0;
  n.dims = p->dim_count;
  memcpy(n.shape, p->dims, n.dims * sizeof(n.shape[0]));
  n.groups = at_least_one(p->groups);
  n.stride_height = at_least_one(p->stride_height);
  n.stride_width = at_least_one(p->stride_width);
  n.dilation_height = at_least_one(p->dilation_height);
  n.dilation_width = at_least_one(p->dilation_width);
  const enum quantization q = quantization_of(p->kernel.datatype);
  n.channel_dim = q == per_channel || q == per_block || q == unknown_quantization ? p->kernel.channel_dim : 0;
  n.block_size = q == per_block || q == unknown_quantization ? p->kernel.block_size : 0;
  return n;
}

static void encode_packing(struct bytes* b, const struct xpwc_packing* p, const struct xpwc_node* n) {
  append_u32(b, p->flags);
  append_u64(b, n->dims);
  for (size_t i = 0; i < n->dims; i++) {
    append_u64(b, n->shape[i]);
  }
  const uint32_t geometry[] = {n->groups, n->stride_height, n->stride_width, n->dilation_height, n->dilation_width};
  for (size_t i = 0; i < sizeof(geometry) / sizeof(geometry[0]); i++) {
    append_u64(b, geometry[i]);
  }
  encode_operand(b, &p->input);
  encode_operand(b, &p->kernel);
  encode_operand(b, &p->bias);
  encode_operand(b, &p->output);
  append_u8(b, p->hidden_bias_size > 0);
  if (p->hidden_bias_size > 0) {
    append_text(b, p->hidden_bias, p->hidden_bias_size);
  }
}

// Computes a packing's identity. Returns false if memory is exhausted.
static bool identify(const struct xpwc_packing* p, struct identity* id) {
  struct bytes b = {NULL, 0, 0, false};
  memset(id, 0, sizeof(*id));
  append_u8(&b, 1); // the version of the encoding
  append_u8(&b, (uint8_t)p->operator_type);
  if (p->operator_type == 0) {
    append(&b, p->opaque, p->opaque_size);
  } else {
    id->flags = p->flags;
    id->node = node_of_packing(p);
    encode_packing(&b, p, &id->node);
  }
  id->digest = digest_and_free(&b);
  return !is_zero(id->digest);
}

// Returns a lower bound of the packed bytes.
static uint64_t least_bytes(const struct identity* id) {
  const struct xpwc_node* n = &id->node;
  const bool half = (id->flags & half_precision) != 0 || (is_float(n->input) && bits_of(n->input) == 16) ||
                    (is_float(n->output) && bits_of(n->output) == 16);
  uint64_t size = bits_of(n->kernel);
  if (is_float(n->kernel) && size > 16 && half) {
    size = 16;
  }
  for (size_t i = 0; i < n->dims; i++) {
    if (size > UINT64_MAX / n->shape[i]) {
      return UINT64_MAX;
    }
    size *= n->shape[i];
  }
  return size / 8;
}

// Sets the number of a kernel's elements, and an upper bound of the number of its scales. Returns false if no operator
// takes such a kernel.
static bool extent(const struct xpwc_node* n, size_t* elements, size_t* scales) {
  const size_t limit = INT16_MAX;
  *elements = 1;
  for (size_t i = 0; i < n->dims; i++) {
    if (n->shape[i] > INT32_MAX || *elements > SIZE_MAX / 32 / n->shape[i]) {
      return false;
    }
    *elements *= n->shape[i];
  }
  const bool image = n->dims == 4 && n->shape[1] <= limit && n->shape[2] <= limit && n->groups <= INT32_MAX &&
                     n->stride_height <= limit && n->stride_width <= limit && n->dilation_height <= limit &&
                     n->dilation_width <= limit;
  bool ok = false;
  switch (n->op) {
    case xpwc_fully_connected: ok = n->dims == 2; break;
    case xpwc_batch_matrix_multiply: ok = n->dims >= 2; break;
    case xpwc_convolution: case xpwc_deconvolution: ok = image && n->shape[0] % n->groups == 0; break;
    case xpwc_depthwise_convolution: ok = image && n->shape[0] == 1 && n->shape[3] % n->groups == 0; break;
  }
  if (!ok || n->channel_dim >= n->dims) {
    return false;
  }
  *scales = n->shape[n->channel_dim];
  for (size_t i = 0; n->op == xpwc_batch_matrix_multiply && i + 2 < n->dims; i++) {
    *scales *= n->shape[i]; // each matrix of a batch has scales
  }
  if (n->block_size > 0) {
    *scales = *elements / n->block_size + 1;
  }
  return true;
}

#endif
