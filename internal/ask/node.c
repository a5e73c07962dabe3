#include "node.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

// What defines values of 2 bits, if the library at hand knows them: no other function can be asked about a datatype that
// it does not know.
#ifdef __ELF__
extern enum xnn_status xnn_define_channelwise_quantized_tensor_value_v3(
    xnn_subgraph_t subgraph, enum xnn_datatype datatype, int32_t zero_point, const float* scales, size_t dims_count,
    size_t channel_dim, const size_t* dims, const void* data, uint32_t external_id, uint32_t flags, uint32_t* id,
    const float* zero_points) __attribute__((weak));
#define define_value_of_2_bits xnn_define_channelwise_quantized_tensor_value_v3
#endif

static const void* content_of(const struct xpwc_content* content, enum xnn_datatype type) {
  switch (type) {
    case xnn_datatype_fp32:
      return content->f32;
    case xnn_datatype_fp16:
    case xnn_datatype_bf16:
      return content->f16;
    case xnn_datatype_qint32:
    case xnn_datatype_qcint32:
      return content->bias;
    default:
      return content->integers;
  }
}

// A value with content is static.
static enum xnn_status define_value(
    xnn_subgraph_t subgraph, enum xnn_datatype type, size_t dims_count, const size_t* dims, const struct xpwc_node* node,
    size_t channel_dim, const struct xpwc_content* content, uint32_t external_id, uint32_t flags, uint32_t* id) {
  const void* data = content == NULL ? NULL : content_of(content, type);
  switch ((int)type) {
    case xnn_datatype_qint8:
      return xnn_define_quantized_tensor_value(subgraph, type, 0, 0.5f, dims_count, dims, data, external_id, flags, id);
    case xnn_datatype_quint8:
      return xnn_define_quantized_tensor_value(
          subgraph, type, 127, 0.5f, dims_count, dims, data, external_id, flags, id);
    case xnn_datatype_qint32:
      return xnn_define_quantized_tensor_value(
          subgraph, type, 0, 0.25f, dims_count, dims, data, external_id, flags, id);
    case xnn_datatype_qdint8:
      return xnn_define_dynamically_quantized_tensor_value(
          subgraph, type, dims_count, dims_count == 4 ? 3 : 1, dims, external_id, flags, id);
    case xnn_datatype_qbint4:
      if (content == NULL) {
        return xnn_status_invalid_parameter;
      }
      return xnn_define_blockwise_quantized_tensor_value(
          subgraph, type, 8, content->block_scales, dims_count, channel_dim, node->block_size, dims, data, external_id,
          flags, id);
    case xnn_datatype_qcint8:
    case xnn_datatype_qcint32:
    case xnn_datatype_qcint4:
      if (content == NULL) {
        return xnn_status_invalid_parameter;
      }
      return xnn_define_channelwise_quantized_tensor_value_v2(
          subgraph, type, type == xnn_datatype_qcint4 ? 8 : 0, content->scales, dims_count, channel_dim, dims, data,
          external_id, flags, id);
#ifdef define_value_of_2_bits
    case xpwc_datatype_qcint2:
      if (content == NULL || define_value_of_2_bits == NULL) {
        return xnn_status_unsupported_parameter;
      }
      return define_value_of_2_bits(
          subgraph, type, 0, content->scales, dims_count, channel_dim, dims, data, external_id, flags, id,
          content->scales); // any zero points will do
#endif
    default:
      return xnn_define_tensor_value(subgraph, type, dims_count, dims, data, external_id, flags, id);
  }
}

// The shapes of a node's input, bias and output.
struct operands {
  size_t input_dims;
  size_t input[XNN_MAX_TENSOR_DIMS];
  size_t output[XNN_MAX_TENSOR_DIMS]; // as many dimensions
  size_t channels;                    // of output and bias
};

static struct operands operands_of(const struct xpwc_node* n) {
  struct operands o;
  memset(&o, 0, sizeof(o));
  const bool transposed = (n->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0; // which is XNN_FLAG_TRANSPOSE_B too
  if (n->op == xpwc_fully_connected) {
    o.input_dims = 2;
    o.input[0] = o.output[0] = 1;
    o.input[1] = n->shape[transposed ? 0 : 1];
    o.channels = o.output[1] = n->shape[transposed ? 1 : 0];
    return o;
  }
  if (n->op == xpwc_batch_matrix_multiply) {
    o.input_dims = n->dims;
    memcpy(o.input, n->shape, sizeof(o.input));
    memcpy(o.output, n->shape, sizeof(o.output));
    o.input[n->dims - 2] = o.output[n->dims - 2] = 1;
    o.input[n->dims - 1] = n->shape[n->dims - (transposed ? 1 : 2)];
    o.channels = o.output[n->dims - 1] = n->shape[n->dims - (transposed ? 2 : 1)];
    return o;
  }
  // An image that is two pixels larger than the dilated kernel.
  const size_t reach_height = (n->shape[1] - 1) * n->dilation_height + 1;
  const size_t reach_width = (n->shape[2] - 1) * n->dilation_width + 1;
  const size_t more = 2;
  o.input_dims = 4;
  o.input[0] = o.output[0] = 1;
  o.input[1] = reach_height + more;
  o.input[2] = reach_width + more;
  if (n->op == xpwc_depthwise_convolution) {
    o.channels = n->shape[3];
    o.input[3] = o.channels / n->groups;
  } else {
    o.channels = n->shape[0];
    o.input[3] = n->shape[3] * n->groups;
  }
  if (n->op == xpwc_deconvolution) {
    o.output[1] = n->stride_height * (o.input[1] - 1) + reach_height;
    o.output[2] = n->stride_width * (o.input[2] - 1) + reach_width;
  } else {
    o.output[1] = (more + 2 * (size_t)n->padding) / n->stride_height + 1;
    o.output[2] = (more + 2 * (size_t)n->padding) / n->stride_width + 1;
  }
  o.output[3] = o.channels;
  return o;
}

static enum xnn_status define(
    xnn_subgraph_t subgraph, const struct xpwc_node* n, uint32_t input, uint32_t kernel, uint32_t bias, uint32_t output) {
  const uint32_t p = n->padding;
  const uint32_t height = (uint32_t)n->shape[1];
  const uint32_t width = (uint32_t)n->shape[2];
  switch (n->op) {
    case xpwc_fully_connected:
      return xnn_define_fully_connected(subgraph, -INFINITY, INFINITY, input, kernel, bias, output, n->flags);
    case xpwc_convolution:
      return xnn_define_convolution_2d(
          subgraph, p, p, p, p, height, width, n->stride_height, n->stride_width, n->dilation_height, n->dilation_width,
          n->groups, n->shape[3], n->shape[0] / n->groups, -INFINITY, INFINITY, input, kernel, bias, output, n->flags);
    case xpwc_depthwise_convolution:
      return xnn_define_depthwise_convolution_2d(
          subgraph, p, p, p, p, height, width, n->stride_height, n->stride_width, n->dilation_height, n->dilation_width,
          n->groups, n->shape[3] / n->groups, -INFINITY, INFINITY, input, kernel, bias, output, n->flags);
    case xpwc_deconvolution:
      return xnn_define_deconvolution_2d(
          subgraph, 0, 0, 0, 0, 0, 0, height, width, n->stride_height, n->stride_width, n->dilation_height,
          n->dilation_width, n->groups, n->shape[3], n->shape[0] / n->groups, -INFINITY, INFINITY, input, kernel, bias,
          output, n->flags);
    case xpwc_batch_matrix_multiply:
      return xnn_define_batch_matrix_multiply(subgraph, input, kernel, output, n->flags);
  }
  return xnn_status_invalid_parameter;
}

static bool is_half(enum xnn_datatype type) { return type == xnn_datatype_fp16 || type == xnn_datatype_bf16; }

// Whether a tensor of the node is of 16-bit floats. On a CPU without arithmetic for those, XNNPACK of 2026 makes the
// subgraph one of float32. If the runtime cannot be created then, the constants that were converted are freed at once,
// and by xnn_delete_subgraph again, which ends the process: such a subgraph is to be left in memory.
static bool has_half(const struct xpwc_node* n) {
  return is_half(n->input) || is_half(n->kernel) || is_half(n->bias) || is_half(n->output);
}

static bool is_activation(enum xnn_datatype type) {
  return type == xnn_datatype_fp32 || is_half(type) || type == xnn_datatype_qint8 || type == xnn_datatype_quint8;
}

static bool is_bias(enum xnn_datatype type) {
  return type == xnn_datatype_invalid || type == xnn_datatype_fp32 || type == xnn_datatype_fp16 ||
         type == xnn_datatype_qint32 || type == xnn_datatype_qcint32;
}

// Whether XNNPACK can be asked about a node: it takes datatypes it does not know, and scales along another dimension,
// on trust.
static bool is_sound(const struct xpwc_node* n) {
  if (!is_activation(n->output) || !(is_activation(n->input) || n->input == xnn_datatype_qdint8) || !is_bias(n->bias)) {
    return false;
  }
  const bool transposed = (n->flags & XNN_FLAG_TRANSPOSE_WEIGHTS) != 0;
  size_t elements = 1;
  for (size_t i = 0; i < n->dims; i++) {
    elements *= n->shape[i];
  }
  const bool part_of_a_byte = n->kernel == xnn_datatype_qbint4 || n->kernel == xnn_datatype_qcint4 ||
                              (int)n->kernel == xpwc_datatype_qcint2;
  if (elements == 1 && part_of_a_byte) {
    return false; // XNNPACK of 2026 reads a static value of one element whole bytes at a time, and crashes where it has none
  }
  switch ((int)n->kernel) {
#ifdef define_value_of_2_bits
    case xpwc_datatype_qcint2:
      return n->op == xpwc_fully_connected && n->channel_dim == (transposed ? 1 : 0);
#endif
    case xnn_datatype_qbint4:
      return n->op == xpwc_fully_connected && !transposed && n->channel_dim == 0 && n->block_size > 0;
    case xnn_datatype_qcint8:
    case xnn_datatype_qcint4:
      switch (n->op) {
        case xpwc_fully_connected:
          return n->channel_dim == (transposed ? 1 : 0);
        case xpwc_depthwise_convolution:
          return n->channel_dim == 3;
        case xpwc_batch_matrix_multiply:
          return n->channel_dim == n->dims - (transposed ? 2 : 1);
        default:
          return n->channel_dim == 0;
      }
    default:
      return is_activation(n->kernel);
  }
}

// Adds a node to a subgraph. Its external values are first_id, the input, and the next, the output.
static enum xnn_status define_node(
    xnn_subgraph_t subgraph, const struct xpwc_node* n, const struct xpwc_content* content, uint32_t first_id) {
  if (!is_sound(n)) {
    return xnn_status_unsupported_parameter;
  }
  const struct operands o = operands_of(n);
  uint32_t input = XNN_INVALID_VALUE_ID, kernel = XNN_INVALID_VALUE_ID, bias = XNN_INVALID_VALUE_ID,
           output = XNN_INVALID_VALUE_ID;
  // A dynamically quantised input is the product of a conversion.
  const bool dynamic = n->input == xnn_datatype_qdint8;
  enum xnn_status status = define_value(
      subgraph, dynamic ? n->output : n->input, o.input_dims, o.input, n, 0, NULL, first_id,
      XNN_VALUE_FLAG_EXTERNAL_INPUT, &input);
  if (status == xnn_status_success && dynamic) {
    uint32_t converted = XNN_INVALID_VALUE_ID;
    status = define_value(
        subgraph, n->input, o.input_dims, o.input, n, 0, NULL, XNN_INVALID_VALUE_ID, 0, &converted);
    if (status == xnn_status_success) {
      status = xnn_define_unary(subgraph, xnn_unary_convert, NULL, input, converted, 0);
    }
    input = converted;
  }
  if (status == xnn_status_success) {
    status = define_value(
        subgraph, n->kernel, n->dims, n->shape, n, n->channel_dim, content, XNN_INVALID_VALUE_ID, 0, &kernel);
  }
  if (status == xnn_status_success && n->bias != xnn_datatype_invalid) {
    status = define_value(subgraph, n->bias, 1, &o.channels, n, 0, content, XNN_INVALID_VALUE_ID, 0, &bias);
  }
  if (status == xnn_status_success) {
    status = define_value(
        subgraph, n->output, o.input_dims, o.output, n, 0, NULL, first_id + 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &output);
  }
  if (status != xnn_status_success) {
    return status;
  }
  return define(subgraph, n, input, kernel, bias, output);
}

enum xnn_status xpwc_pack_nodes(
    const struct xpwc_node* nodes, size_t count, const struct xpwc_content* content, struct xpwc_bare_provider* provider) {
  xnn_workspace_t workspace = NULL; // XNNPACK's own would leak when the runtime cannot be created
  xnn_subgraph_t subgraph = NULL;
  xnn_runtime_t runtime = NULL;
  enum xnn_status status = xnn_create_workspace(&workspace);
  if (status == xnn_status_success) {
    status = xnn_create_subgraph(2 * (uint32_t)count, 0, &subgraph);
  }
  bool half = false;
  for (size_t i = 0; i < count && status == xnn_status_success; i++) {
    half = half || has_half(&nodes[i]);
    status = define_node(subgraph, &nodes[i], content, 2 * (uint32_t)i);
  }
  bool leave = false;
  if (status == xnn_status_success) {
    status = xnn_create_runtime_v4(
        subgraph, &provider->callbacks, workspace, NULL, nodes[0].runtime_flags, &runtime);
    leave = runtime == NULL && half;
  }
  if (runtime != NULL) {
    xnn_delete_runtime(runtime);
  }
  if (subgraph != NULL && !leave) {
    xnn_delete_subgraph(subgraph);
  }
  if (workspace != NULL) {
    xnn_release_workspace(workspace);
  }
  return status;
}
