// packing DIRECTORY
//
// One name and content, packed in several ways: each use gets its own packed weights if the host describes how it is
// packed.
#include "host.h"

static char path[4096];

// A fully connected layer, made of the same bytes as all others.
typedef struct layer {
  size_t dims[2]; // outputs, inputs
  bool quantized; // int8, with an input that is quantised dynamically
  float scale;
  float bias;
} layer;

enum { NARROW = 32, WIDE = 512, ELEMENTS = NARROW * WIDE };

static float content[ELEMENTS + XNN_EXTRA_BYTES / sizeof(float)];

static xpwc_status get(void* context, const char* name, xpwc_tensor* to) {
  if (strcmp(name, "w") != 0) {
    return XPWC_STATUS_UNKNOWN_TENSOR;
  }
  REQUIRE(context == content);
  to->data = content;
  to->size = ELEMENTS * sizeof(float);
  to->stamp = "1";
  return XPWC_STATUS_OK;
}

static xpwc_data_map the_map(void) {
  xpwc_data_map map;
  memset(&map, 0, sizeof(map));
  map.struct_size = sizeof(map);
  map.get = get;
  map.context = content;
  return map;
}

// Returns how XNNPACK packs the layer. It refers to scales and bias.
static xpwc_packing packing_of(const layer* l, const float* scales, const float* bias) {
  xpwc_packing packing = linear_packing(l->dims);
  if (l->quantized) {
    packing.input.datatype = xnn_datatype_qdint8;
    packing.input.non_batch_dims = 1;
    packing.kernel.datatype = xnn_datatype_qcint8;
    packing.kernel.scales = scales;
    packing.kernel.scale_count = l->dims[0];
    packing.hidden_bias = bias;
    packing.hidden_bias_size = l->dims[0] * sizeof(float);
  } else {
    packing.bias.datatype = xnn_datatype_invalid;
  }
  return packing;
}

// Computes the layer's outputs, with packed weights of the cache or, if it is NULL, without one. The kernel is loaded with
// the packing given, which may be NULL, or with the layer's own if that is all_of_it.
static const xpwc_packing all_of_it;

static void compute(const layer* l, const xpwc_cache* cache, const xpwc_packing* given, float out[WIDE]) {
  const size_t outputs = l->dims[0], inputs = l->dims[1];
  float scales[WIDE + XNN_EXTRA_BYTES / sizeof(float)], bias[WIDE + XNN_EXTRA_BYTES / sizeof(float)];
  for (size_t i = 0; i < WIDE; i++) {
    scales[i] = l->scale;
    bias[i] = l->bias;
  }
  xpwc_session session = {0};
  struct xnn_weights_cache_provider* provider = NULL;
  const void* kernel = content;
  if (cache != NULL) {
    xpwc_packing packing = packing_of(l, scales, bias);
    xpwc_load_options options;
    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.packing = given == &all_of_it ? &packing : given;
    const xpwc_data_map map = the_map();
    OK(xpwc_session_begin(*cache, &map, &session));
    OK(xpwc_session_load(session, "w", &options, &kernel, NULL));
    memset(&packing, 0xee, sizeof(packing)); // it is read during the call only
    OK(xpwc_session_provider(session, &provider));
  }

  xnn_subgraph_t subgraph = NULL;
  XNN(xnn_create_subgraph(2, 0, &subgraph));
  const size_t from[] = {1, inputs}, to[] = {1, outputs};
  uint32_t in, row, w, b = XNN_INVALID_VALUE_ID, result;
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, from, NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &in));
  XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, to, NULL, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &result));
  row = in;
  if (l->quantized) {
    XNN(xnn_define_dynamically_quantized_tensor_value(
        subgraph, xnn_datatype_qdint8, 2, 1, from, XNN_INVALID_VALUE_ID, 0, &row));
    XNN(xnn_define_unary(subgraph, xnn_unary_convert, NULL, in, row, 0));
    XNN(xnn_define_channelwise_quantized_tensor_value(
        subgraph, xnn_datatype_qcint8, scales, 2, 0, l->dims, kernel, XNN_INVALID_VALUE_ID, 0, &w));
    XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 1, l->dims, bias, XNN_INVALID_VALUE_ID, 0, &b));
  } else {
    XNN(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, l->dims, kernel, XNN_INVALID_VALUE_ID, 0, &w));
  }
  XNN(xnn_define_fully_connected(subgraph, -1e30f, 1e30f, row, w, b, result, 0));
  xnn_runtime_t runtime = subgraph_finish(subgraph, provider);
  if (cache != NULL) {
    OK(xpwc_session_finalize(session));
  }

  float input[WIDE + XNN_EXTRA_BYTES / sizeof(float)];
  float output[WIDE + XNN_EXTRA_BYTES / sizeof(float)] = {0};
  fill_with_floats(input, sizeof(input) / sizeof(*input), 7);
  runtime_invoke(runtime, input, output);
  memcpy(out, output, WIDE * sizeof(*out));
  XNN(xnn_delete_runtime(runtime));
  if (cache != NULL) {
    OK(xpwc_session_end(session));
  }
}

static void shapes_are_compared_without_a_packing(void) {
  static const char opaque[] = "a layer";
  xpwc_packing described;
  memset(&described, 0, sizeof(described));
  described.struct_size = sizeof(described);
  described.opaque = opaque;
  described.opaque_size = sizeof(opaque);
  const xpwc_packing* packings[] = {NULL, &described};
  const layer layers[] = {{{NARROW, WIDE}, false, 0, 0}, {{WIDE, NARROW}, false, 0, 0}};
  xpwc_cache cache;
  OK(xpwc_open(path, NULL, &cache));
  for (int p = 0; p < 2; p++) {
    for (int i = 0; i < 4; i++) {
      float want[WIDE], got[WIDE];
      compute(&layers[i % 2], NULL, NULL, want);
      compute(&layers[i % 2], &cache, packings[p], got);
      REQUIRE(memcmp(want, got, sizeof(want)) == 0);
    }
    const xpwc_stats stats = cache_stats(cache);
    REQUIRE(stats.packed.entries == 2 * (uint64_t)(p + 1) && stats.reused.entries == 2 * (uint64_t)(p + 1));
    REQUIRE(stats.hits.entries == 0);
  }
  OK(xpwc_close(cache));
  REQUIRE(remove(path) == 0);
}

static void shapes_scales_and_biases_are_distinguished(void) {
  const layer layers[] = {
      {{NARROW, WIDE}, false, 0, 0},
      {{WIDE, NARROW}, false, 0, 0},
      {{NARROW, WIDE}, true, 0.5f, 1},
      {{WIDE, NARROW}, true, 0.5f, 1},
      {{NARROW, WIDE}, true, 0.25f, 1},
      {{NARROW, WIDE}, true, 0.5f, 2},
  };
  enum { COUNT = sizeof(layers) / sizeof(*layers) };
  for (int opening = 0; opening < 2; opening++) {
    xpwc_cache cache;
    OK(xpwc_open(path, NULL, &cache));
    for (int i = 0; i < 2 * COUNT; i++) {
      float want[WIDE], got[WIDE];
      compute(&layers[i % COUNT], NULL, NULL, want);
      compute(&layers[i % COUNT], &cache, &all_of_it, got);
      REQUIRE(memcmp(want, got, sizeof(want)) == 0);
    }
    const xpwc_stats stats = cache_stats(cache);
    REQUIRE(stats.packed.entries == (opening == 0 ? COUNT : 0));
    REQUIRE(stats.hits.entries == (opening == 0 ? COUNT : 2 * COUNT));
    OK(xpwc_close(cache));
  }
}

enum { PACKED = 4096 };

// Returns whether packed weights are found that are packed so. If not, and pack is set, they are packed: bytes of that
// value. The key that XNNPACK would give is always the same.
static bool found_or_packed(
    xpwc_cache cache, const xpwc_packing* packings[], size_t count, uint32_t flags, bool pack, char value) {
  const xpwc_data_map map = the_map();
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  const void* kernel = NULL;
  for (size_t i = 0; i < count; i++) {
    xpwc_load_options options;
    memset(&options, 0, sizeof(options));
    options.struct_size = sizeof(options);
    options.packing = packings[i];
    options.flags = flags;
    OK(xpwc_session_load(session, "w", &options, &kernel, NULL));
  }
  struct xnn_weights_cache_provider* provider;
  OK(xpwc_session_provider(session, &provider));
  struct xnn_weights_cache_look_up_key key;
  memset(&key, 0, sizeof(key));
  key.seed = 17;
  key.kernel = kernel;
  const bool is = provider->look_up(provider->context, &key) != SIZE_MAX;
  if (!is && pack) {
    void* space = provider->reserve_space(provider->context, PACKED);
    REQUIRE(space != NULL);
    memset(space, value, PACKED);
    const size_t offset = provider->look_up_or_insert(provider->context, &key, space, PACKED);
    const char* kept = (const char*)provider->offset_to_addr(provider->context, offset);
    REQUIRE(kept[0] == value && kept[PACKED - 1] == value);
  }
  OK(xpwc_session_finalize(session));
  OK(xpwc_session_end(session));
  return is;
}

static bool found(xpwc_cache cache, const xpwc_packing* packings[], size_t count, bool pack) {
  return found_or_packed(cache, packings, count, XPWC_LOAD_BELIEVE, pack, 'a');
}

static bool found_one(xpwc_cache cache, const xpwc_packing* packing, bool pack) {
  return found(cache, &packing, 1, pack);
}

// Tries a packing with one member changed.
#define COUNTS(statement)                             \
  do {                                               \
    xpwc_packing p = base;                           \
    statement;                                       \
    if (found_one(cache, &p, false)) {               \
      require_failed(__FILE__, __LINE__, #statement, "makes no difference"); \
    }                                                \
  } while (0)

#define COUNTS_OPERAND(operand)                                                   \
  do {                                                                           \
    COUNTS(p.operand.datatype = 98);                                              \
    COUNTS(p.operand.zero_point = -1);                                            \
    COUNTS(p.operand.scale = 3);                                                  \
    COUNTS(p.operand.channel_dim = 1);                                            \
    COUNTS(p.operand.scales = other_scales);                                      \
    COUNTS(p.operand.scale_count = 1);                                            \
    COUNTS(p.operand.block_scales = other_block_scales);                          \
    COUNTS(p.operand.block_scale_count = 1);                                      \
    COUNTS(p.operand.block_size = 3);                                             \
    COUNTS(p.operand.non_batch_dims = 2);                                         \
  } while (0)

// A type that nobody knows yet, of which everything counts.
static void every_member_counts(void) {
  static const size_t dims[] = {NARROW, WIDE, 1}, other_dims[] = {WIDE, NARROW, 1};
  static const float scales[] = {1, 2}, other_scales[] = {1, 3};
  static const uint16_t block_scales[] = {1, 2}, other_block_scales[] = {1, 3};
  xpwc_operand operand;
  memset(&operand, 0, sizeof(operand));
  operand.datatype = 99;
  operand.scales = scales;
  operand.scale_count = 2;
  operand.block_scales = block_scales;
  operand.block_scale_count = 2;
  xpwc_packing base = linear_packing(dims);
  base.input = base.kernel = base.bias = base.output = operand;
  base.hidden_bias = "bias";
  base.hidden_bias_size = 4;

  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  REQUIRE(!found_one(cache, &base, true));
  REQUIRE(found_one(cache, &base, false));
  const uint32_t operators[] = {
      XPWC_OPERATOR_CONVOLUTION_2D, XPWC_OPERATOR_DEPTHWISE_CONVOLUTION_2D, XPWC_OPERATOR_DECONVOLUTION_2D,
      XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY};
  for (size_t i = 0; i < sizeof(operators) / sizeof(*operators); i++) {
    COUNTS(p.operator_type = operators[i]);
  }
  const uint32_t flags[] = {
      XPWC_PACKING_TRANSPOSED, XPWC_PACKING_PADDED, XPWC_PACKING_HALF_PRECISION, XPWC_PACKING_SPARSE_INFERENCE,
      XPWC_PACKING_CONSISTENT_ARITHMETIC};
  for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
    COUNTS(p.flags = flags[i]);
  }
  COUNTS(p.groups = 2);
  COUNTS(p.stride_height = 2);
  COUNTS(p.stride_width = 2);
  COUNTS(p.dilation_height = 2);
  COUNTS(p.dilation_width = 2);
  COUNTS(p.dims = other_dims);
  COUNTS(p.dim_count = 3);
  COUNTS_OPERAND(input);
  COUNTS_OPERAND(kernel);
  COUNTS_OPERAND(bias);
  COUNTS_OPERAND(output);
  COUNTS(p.hidden_bias = "BIAS");
  COUNTS(p.hidden_bias_size = 3);
  COUNTS(p.hidden_bias = NULL; p.hidden_bias_size = 0);
  COUNTS(memset(&p, 0, sizeof(p)); p.struct_size = sizeof(p); p.opaque = "x"; p.opaque_size = 1);

  // Ones and zeroes are the same where a zero stands for 1.
  xpwc_packing ones = base;
  ones.groups = ones.stride_height = ones.stride_width = ones.dilation_height = ones.dilation_width = 1;
  REQUIRE(found_one(cache, &ones, false));
  ones.stride_height = 0;
  REQUIRE(found_one(cache, &ones, false));
  OK(xpwc_close(cache));
}

// What a host knows in pieces it adds in pieces, in any order.
static void opaque_bytes_add_up(void) {
  xpwc_packing a;
  memset(&a, 0, sizeof(a));
  a.struct_size = sizeof(a);
  a.opaque = "a";
  a.opaque_size = 1;
  xpwc_packing b = a;
  b.opaque = "b";
  const xpwc_packing *both[] = {&a, &b}, *reverse[] = {&b, &a};
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  REQUIRE(!found(cache, both, 2, true));
  REQUIRE(found(cache, reverse, 2, false));
  REQUIRE(!found(cache, both, 1, false));
  REQUIRE(!found(cache, reverse, 1, false));
  OK(xpwc_close(cache));
}

// What a host does not know enough of is never found, but kept once.
static void too_little_is_compared(void) {
  xpwc_packing a;
  memset(&a, 0, sizeof(a));
  a.struct_size = sizeof(a);
  a.opaque = "a";
  a.opaque_size = 1;
  const xpwc_packing* packings[] = {&a};
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  for (int i = 0; i < 6; i++) {
    REQUIRE(!found_or_packed(cache, packings, 1, 0, true, "xy"[i % 2]));
  }
  REQUIRE(cache_stats(cache).packed.entries == 2);
  REQUIRE(cache_stats(cache).reused.entries == 4);
  REQUIRE(!found(cache, packings, 1, false)); // nor is either of them believed
  OK(xpwc_close(cache));
}

int main(int argc, char** argv) {
  REQUIRE(argc == 2);
  snprintf(path, sizeof(path), "%s/cache", argv[1]);
  XNN(xnn_initialize(NULL));
  fill_with_floats(content, ELEMENTS, 1);
  shapes_are_compared_without_a_packing();
  shapes_scales_and_biases_are_distinguished();
  every_member_counts();
  opaque_bytes_add_up();
  too_little_is_compared();
  return 0;
}
