#include "written.h"

#include <errno.h>
#include <stdlib.h>

#ifdef _WIN32 /* which has no aligned_alloc, and frees what is aligned by a call of its own */
#include <malloc.h>
#include <windows.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define aligned_free _aligned_free
#else
#include <sys/mman.h>
#include <unistd.h>
#define aligned_free free
#endif

enum { alignment = 128 };

// Writes n bytes after what was written before.
static bool write_all(struct written* cache, const uint8_t* from, size_t n) {
  while (n > 0) {
    const size_t some = n < (1u << 30) ? n : (1u << 30);
#ifdef _WIN32
    OVERLAPPED at = {.Offset = (DWORD)cache->end, .OffsetHigh = (DWORD)((uint64_t)cache->end >> 32)};
    DWORD done;
    if (!WriteFile((HANDLE)cache->file, from, (DWORD)some, &done, &at)) {
      return false;
    }
#else
    const ssize_t done = pwrite((int)cache->file, from, some, (off_t)cache->end);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      return false;
    }
#endif
    from += done;
    n -= (size_t)done;
    cache->end += (size_t)done;
  }
  return true;
}

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  (void)context;
  (void)key;
  return SIZE_MAX;
}

static void* reserve_space(void* context, size_t n) {
  struct written* cache = context;
  if (n > cache->capacity) {
    aligned_free(cache->buffer);
    cache->capacity = (n + 2 * alignment - 1) / alignment * alignment;
    cache->buffer = aligned_alloc(alignment, cache->capacity);
    if (cache->buffer == NULL) {
      cache->capacity = 0;
    }
  }
  return cache->buffer;
}

static size_t look_up_or_insert(void* context, const struct xnn_weights_cache_look_up_key* key, void* packed,
                                size_t size) {
  (void)key;
  struct written* cache = context;
  static const uint8_t zeros[alignment];
  const size_t gap = -cache->end % alignment;
  cache->failed = cache->failed || !write_all(cache, zeros, gap);
  const size_t offset = cache->end;
  cache->failed = cache->failed || !write_all(cache, packed, size);
  return offset;
}

static bool is_finalized(void* context) {
  const struct written* cache = context;
  return cache->base != NULL;
}

static void* offset_to_addr(void* context, size_t offset) {
  const struct written* cache = context;
  return cache->base + offset;
}

static enum xnn_status delete_cache(void* context) {
  (void)context;
  return xnn_status_success;
}

struct written* written_create(intptr_t file) {
  struct written* cache = calloc(1, sizeof(struct written));
  if (cache != NULL) {
    cache->callbacks.context = cache;
    cache->callbacks.look_up = look_up;
    cache->callbacks.reserve_space = reserve_space;
    cache->callbacks.look_up_or_insert = look_up_or_insert;
    cache->callbacks.is_finalized = is_finalized;
    cache->callbacks.offset_to_addr = offset_to_addr;
    cache->callbacks.delete_cache = delete_cache;
    cache->file = file;
  }
  return cache;
}

bool written_map(struct written* cache) {
#ifdef _WIN32
  HANDLE mapping = CreateFileMapping((HANDLE)cache->file, NULL, PAGE_READONLY, 0, 0, NULL);
  if (mapping == NULL) {
    return false;
  }
  cache->base = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
  CloseHandle(mapping);
#else
  void* base = mmap(NULL, cache->end, PROT_READ, MAP_SHARED, (int)cache->file, 0);
  cache->base = base == MAP_FAILED ? NULL : base;
#endif
  return cache->base != NULL;
}

void written_delete(struct written* cache) {
  if (cache->base != NULL) {
#ifdef _WIN32
    UnmapViewOfFile(cache->base);
#else
    munmap(cache->base, cache->end);
#endif
  }
  aligned_free(cache->buffer);
  free(cache);
}
