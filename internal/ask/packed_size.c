// Asks XNNPACK how many bytes it packs for a node: a provider that knows nothing and has no space hears it, and
// creating the runtime fails before anything is packed.

#include <stdbool.h>
#include <stdlib.h>

#include "ask.h"

struct question {
  size_t size;
  uint32_t fingerprint_id;
};

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  struct question* q = context;
  q->fingerprint_id = xpwc_fingerprint_id(key);
  return SIZE_MAX;
}

static void* reserve_space(void* context, size_t n) {
  struct question* q = context;
  q->size = n;
  return NULL;
}

static size_t look_up_or_insert(
    void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  (void)context;
  (void)key;
  (void)size;
  return (size_t)packed;
}

static enum xnn_status ask(const struct xpwc_node* node, const struct xpwc_content* content, struct question* q) {
  struct xpwc_bare_provider provider;
  xpwc_bare_provider_init(&provider, q, look_up, reserve_space, look_up_or_insert);
  xnn_subgraph_t subgraph = NULL;
  xnn_workspace_t workspace = NULL;
  xnn_runtime_t runtime = NULL;
  enum xnn_status status = xnn_create_workspace(&workspace); // XNNPACK's own would leak when the runtime's creation fails
  if (status != xnn_status_success) {
    return status;
  }
  status = xnn_create_subgraph(2, 0, &subgraph);
  if (status != xnn_status_success) {
    xnn_release_workspace(workspace);
    return status;
  }
  bool keep = false;
  status = xpwc_define_node(subgraph, node, content, 0);
  if (status == xnn_status_success) {
    status = xnn_create_runtime_v4(subgraph, &provider.callbacks, workspace, NULL, 0, &runtime);
    keep = runtime == NULL && xpwc_node_has_half(node);
  }
  if (runtime != NULL) {
    xnn_delete_runtime(runtime);
  }
  if (!keep) {
    xnn_delete_subgraph(subgraph);
  }
  xnn_release_workspace(workspace);
  return status;
}

// Returns n bytes of zeros, or NULL. What is not read takes no memory, but counts as address space, of which a process
// may be allowed little.
static const void* zeros_of(size_t n) {
  enum { least = 1 << 20 };
  static void* zeros;
  static size_t size;
  if (n > size) {
    const size_t more = n > 2 * size ? n : 2 * size;
    free(zeros);
    size = more > least ? more : least;
    zeros = calloc(size, 1);
    if (zeros == NULL) {
      size = 0;
    }
  }
  return zeros;
}

size_t xpwc_packed_size(const struct xpwc_node* node, size_t elements, size_t scales_count, uint32_t* fingerprint_id) {
  const void* zeros = zeros_of(elements * sizeof(float) + XNN_EXTRA_BYTES); // of the widest elements
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
    ask(node, &content, &q);
  }
  free(block_scales);
  free(scales);
  *fingerprint_id = q.fingerprint_id;
  return q.size;
}
