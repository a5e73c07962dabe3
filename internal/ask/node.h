// Nodes of the operators that pack weights, one by one: what layout.c and packed_size.c give XNNPACK to see how it packs.
#ifndef XPWC_NODE_H
#define XPWC_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "key.h"

// By the numbers of package packing.
enum xpwc_operator {
  xpwc_fully_connected = 1,
  xpwc_convolution,
  xpwc_depthwise_convolution,
  xpwc_deconvolution,
  xpwc_batch_matrix_multiply,
};

// A datatype that headers before 2026 have no name for: 2 bits, quantised by channels.
enum { xpwc_datatype_qcint2 = 18 };

// XNN_FLAG_SLOW_CONSISTENT_ARITHMETIC, for which headers before June 2025 have no name. Libraries of that time ignore it.
enum { xpwc_slow_consistent_arithmetic = 0x2000 };

// The parameters that packing depends on. Shapes and groups are as in packing.Identity; the groups of a depthwise
// convolution are the depth multiplier.
struct xpwc_node {
  enum xpwc_operator op;
  enum xnn_datatype input;
  enum xnn_datatype kernel;
  enum xnn_datatype bias; // xnn_datatype_invalid: none
  enum xnn_datatype output;
  uint32_t flags; // of xnn_define_*
  uint32_t runtime_flags; // of xnn_create_runtime_*: what XNNPACK is asked about is of such a runtime
  size_t dims;
  size_t shape[XNN_MAX_TENSOR_DIMS];
  size_t channel_dim;
  size_t block_size;
  uint32_t groups;
  uint32_t stride_height, stride_width;
  uint32_t dilation_height, dilation_width;
  uint32_t padding; // on each side of the image
};

// What the static tensors of nodes are made of, each as long as the longest needs.
struct xpwc_content {
  const void* f32;
  const void* f16; // and bfloat16
  const void* integers;
  const void* bias; // of integers
  const float* scales;
  const uint16_t* block_scales;
};

// Has XNNPACK create a runtime of count nodes, with the flags of the first one, and deletes it: packing calls the
// provider as it calls a weights cache. The shapes must be valid for the operators, without zeros; otherwise
// unsupported nodes are an error status of XNNPACK.
enum xnn_status xpwc_pack_nodes(
    const struct xpwc_node* nodes, size_t count, const struct xpwc_content* content, struct xpwc_bare_provider* provider);

#endif
