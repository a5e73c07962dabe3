// Asks XNNPACK how many bytes it packs for a node: a provider that knows nothing and has no space hears it, and
// creating the runtime fails before anything is packed.

#include <stdbool.h>
#include <stdlib.h>

#include "ask.h"

struct question {
  size_t size;
  uint32_t fingerprint_id;
};

static size_t hear_key(void* context, const struct xnn_weights_cache_look_up_key* key) {
  struct question* q = context;
  q->fingerprint_id = xpwc_fingerprint_id(key);
  return SIZE_MAX;
}

static void* hear_size(void* context, size_t n) {
  struct question* q = context;
  q->size = n;
  return NULL;
}

static size_t take_nothing(
    void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  (void)context;
  (void)key;
  (void)size;
  return (size_t)packed;
}

// Reports whether to ask XNNPACK about a node in half precision. XNNPACK does not convert other nodes, and some builds
// have assertions that abort the process for them. Without fingerprint_ids a key does not show the precision.
static bool can_be_halved(const struct xpwc_node* n) {
  const bool looks_up = n->op == xpwc_fully_connected || n->op == xpwc_convolution || n->op == xpwc_depthwise_convolution;
  const bool single = n->input == xnn_datatype_fp32 && n->kernel == xnn_datatype_fp32;
  const bool dynamic = n->op != xpwc_depthwise_convolution && n->input == xnn_datatype_qdint8 &&
                       (n->kernel == xnn_datatype_qcint8 || n->kernel == xnn_datatype_qcint4);
  return xpwc_key_has_fingerprint_id && looks_up && (single || dynamic) && n->output == xnn_datatype_fp32 &&
         (n->bias == xnn_datatype_invalid || n->bias == xnn_datatype_fp32);
}

// Returns n bytes of zeros, or NULL. What is not read takes no memory, but counts as address space, of which a process
// may be allowed little.
static const void* zeros_of(size_t n, struct xpwc_zeros* kept) {
  enum { least = 1 << 20 };
  if (n > kept->size) {
    const size_t more = n > 2 * kept->size ? n : 2 * kept->size;
    free(kept->bytes);
    kept->size = more > least ? more : least;
    kept->bytes = calloc(kept->size, 1);
    if (kept->bytes == NULL) {
      kept->size = 0;
    }
  }
  return kept->bytes;
}

size_t xpwc_packed_size(
    const struct xpwc_node* node, size_t elements, size_t scales_count, struct xpwc_zeros* kept,
    uint32_t* fingerprint_id) {
  *fingerprint_id = 0;
  if ((node->runtime_flags & XNN_FLAG_FORCE_FP16_INFERENCE) != 0 && !can_be_halved(node)) {
    return 0;
  }
  const void* zeros = zeros_of(elements * sizeof(float) + XNN_EXTRA_BYTES, kept); // of the widest elements
  if (zeros == NULL || xnn_initialize(NULL) != xnn_status_success) {
    return 0;
  }
  float* scales = malloc(scales_count * sizeof(float));
  uint16_t* block_scales = malloc(scales_count * sizeof(uint16_t));
  struct question q = {0, 0};
  if (scales != NULL && block_scales != NULL) {
    const uint16_t one_of_bfloat16 = 0x3f80;
    for (size_t i = 0; i < scales_count; i++) {
      scales[i] = 0.5f;
      block_scales[i] = one_of_bfloat16;
    }
    const struct xpwc_content content = {zeros, zeros, zeros, zeros, scales, block_scales};
    struct xpwc_bare_provider provider;
    xpwc_bare_provider_init(&provider, &q, hear_key, hear_size, take_nothing);
    xpwc_pack_nodes(node, 1, &content, &provider);
  }
  free(block_scales);
  free(scales);
  *fingerprint_id = q.fingerprint_id;
  return q.size;
}
