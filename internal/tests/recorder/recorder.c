#include "recorder.h"

#include <stdlib.h>
#include <string.h>

#ifdef _WIN32 /* which has no aligned_alloc, and frees what is aligned by a call of its own */
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define aligned_free _aligned_free
#else
#define aligned_free free
#endif

static void record(struct recorder* r, char call) {
  if (r->calls < recorder_limit) {
    r->call[r->calls] = call;
  }
  r->calls++;
}

// The last record for an address counts: copies are freed, and others made in their place.
static const void* original(const struct recorder* r, const void* data) {
  for (size_t i = r->aliases; i > 0; i--) {
    if (r->alias[i - 1].copy == data) {
      return r->alias[i - 1].original;
    }
  }
  return data;
}

static size_t find(struct recorder* r, const struct xnn_weights_cache_look_up_key* key) {
  for (size_t i = 0; i < r->entries; i++) {
    const struct recorder_entry* e = &r->entry[i];
    if (e->seed == key->seed && e->kernel == original(r, key->kernel) && e->bias == original(r, key->bias)) {
      return i;
    }
  }
  return SIZE_MAX;
}

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  struct recorder* r = context;
  const size_t at = find(r, key);
  record(r, at != SIZE_MAX ? 'L' : 'l');
  return at;
}

static void* reserve_space(void* context, size_t n) {
  struct recorder* r = context;
  record(r, 'r');
  if (r->blocks == recorder_limit) {
    return NULL;
  }
  const size_t alignment = 128;
  void* block = aligned_alloc(alignment, (n + 2 * alignment - 1) / alignment * alignment);
  if (block != NULL) {
    r->block[r->blocks++] = block;
  }
  return block;
}

static size_t look_up_or_insert(void* context, const struct xnn_weights_cache_look_up_key* key, void* packed,
                                size_t size) {
  struct recorder* r = context;
  size_t at = find(r, key);
  // After a look-up that hit, a convolution inserts all the same, with nothing.
  const bool hit = at != SIZE_MAX && r->entry[at].size == size &&
                   (packed == NULL || memcmp(r->entry[at].packed, packed, size) == 0);
  record(r, hit ? 'I' : 'i');
  if (!hit) {
    // There are no more entries than blocks, and reserving failed where the blocks ran out.
    at = r->entries++;
    const struct recorder_entry entry = {key->seed, original(r, key->kernel), original(r, key->bias), packed, size};
    r->entry[at] = entry;
  }
  return at;
}

static bool is_finalized(void* context) { return ((struct recorder*) context)->finalized; }

static void* offset_to_addr(void* context, size_t offset) { return ((struct recorder*) context)->entry[offset].packed; }

static enum xnn_status delete_cache(void* context) {
  (void) context;
  return xnn_status_success;
}

static enum xnn_status alias_data(void* context, void* copy, void* data) {
  struct recorder* r = context;
  if (r->aliases == recorder_limit) {
    return xnn_status_out_of_memory;
  }
  r->alias[r->aliases].copy = copy;
  r->alias[r->aliases++].original = data;
  return xnn_status_success;
}

struct recorder* recorder_create(void) {
  struct recorder* r = calloc(1, sizeof(struct recorder));
  if (r != NULL) {
    r->provider.context = r;
    r->provider.look_up = look_up;
    r->provider.reserve_space = reserve_space;
    r->provider.look_up_or_insert = look_up_or_insert;
    r->provider.is_finalized = is_finalized;
    r->provider.offset_to_addr = offset_to_addr;
    r->provider.delete_cache = delete_cache;
    // The member that follows, in this header or in that of the library's own version.
    enum xnn_status (*last)(void*, void*, void*) = alias_data;
    memcpy((char*) r + offsetof(struct xnn_weights_cache_provider, delete_cache) + sizeof(void (*)(void)), &last, sizeof(last));
  }
  return r;
}

void recorder_delete(struct recorder* r) {
  for (size_t i = 0; i < r->blocks; i++) {
    aligned_free(r->block[i]);
  }
  free(r);
}
