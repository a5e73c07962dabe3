#include "provider.h"

#include <stdlib.h>

#ifdef _WIN32 /* which has no aligned_alloc, and frees what is aligned by a call of its own */
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define aligned_free _aligned_free
#else
#define aligned_free free
#endif

enum { alignment = 128 };

// What XNNPACK packs into, after a head of one alignment.
struct block {
  struct block* before;
  size_t size;
};

static void free_blocks(struct provider* p) {
  while (p->block != NULL) {
    struct block* last = p->block;
    p->block = last->before;
    aligned_free(last);
  }
}

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  (void)key;
  struct provider* p = context;
  if (p->file == NULL && p->next < p->places) {
    return (size_t)p->place[p->next++].offset;
  }
  p->missed++;
  p->asked = true;
  return SIZE_MAX;
}

// What is written is all packed into one block.
static void* reserve_space(void* context, size_t n) {
  struct provider* p = context;
  if (p->file != NULL) {
    if (p->block != NULL && n <= p->block->size) {
      return (uint8_t*)p->block + alignment;
    }
    free_blocks(p);
  }
  struct block* b = aligned_alloc(alignment, (n + 3 * alignment - 1) / alignment * alignment);
  if (b == NULL) {
    return NULL;
  }
  b->before = p->block;
  b->size = n;
  p->block = b;
  return (uint8_t*)b + alignment;
}

static bool note(struct provider* p, size_t size) {
  if (p->places == p->capacity) {
    const size_t wanted = 2 * p->capacity + 64;
    struct place* grown = realloc(p->place, wanted * sizeof(*grown));
    if (grown == NULL) {
      return false;
    }
    p->place = grown;
    p->capacity = wanted;
  }
  p->place[p->places++] = (struct place){p->end, size};
  return true;
}

static size_t look_up_or_insert(void* context, const struct xnn_weights_cache_look_up_key* key, void* packed,
                                size_t size) {
  (void)key;
  struct provider* p = context;
  if (packed == NULL) { // a convolution inserts all the same after a look-up that hit
    return (size_t)p->place[p->next - 1].offset;
  }
  if (p->file == NULL) { // what is packed without a look-up is packed again in every process, into memory of its own
    return (size_t)((uintptr_t)packed - (uintptr_t)p->base);
  }
  static const uint8_t zeros[alignment];
  const size_t gap = -p->end % alignment;
  p->failed |= fwrite(zeros, 1, gap, p->file) != gap;
  p->end += gap;
  const uint64_t offset = p->end;
  p->failed |= p->asked && !note(p, size);
  p->failed |= fwrite(packed, 1, size, p->file) != size;
  p->end += size;
  p->asked = false;
  return (size_t)offset;
}

static bool is_finalized(void* context) {
  const struct provider* p = context;
  return p->base != NULL;
}

static void* offset_to_addr(void* context, size_t offset) {
  const struct provider* p = context;
  return (void*)((uintptr_t)p->base + offset);
}

static enum xnn_status delete_cache(void* context) {
  (void)context;
  return xnn_status_success;
}

struct provider* provider_create(FILE* file, struct place* place, size_t places) {
  struct provider* p = calloc(1, sizeof(struct provider));
  if (p != NULL) {
    p->callbacks.context = p;
    p->callbacks.look_up = look_up;
    p->callbacks.reserve_space = reserve_space;
    p->callbacks.look_up_or_insert = look_up_or_insert;
    p->callbacks.is_finalized = is_finalized;
    p->callbacks.offset_to_addr = offset_to_addr;
    p->callbacks.delete_cache = delete_cache;
    p->file = file;
    p->place = place;
    p->places = p->capacity = places;
    if (file != NULL) {
      setvbuf(file, NULL, _IONBF, 0); // what is packed is written as it is, in one piece
    }
  }
  return p;
}

bool provider_written(struct provider* p) {
  p->failed |= fclose(p->file) != 0;
  p->file = NULL;
  free_blocks(p);
  return !p->failed;
}

void provider_delete(struct provider* p) {
  if (p->file != NULL) {
    fclose(p->file);
  }
  free_blocks(p);
  free(p->place);
  free(p);
}
