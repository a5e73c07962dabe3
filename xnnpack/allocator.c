// XNNPACK's memory. It writes at once to all of an aligned block: intermediate values, and what is packed without a cache.
// The C library's large block has no pages yet. A page fault for each of them would take as long as half of the first
// inference of a small model. Of other blocks, such as the addresses of a convolution's pixels, some pages stay unused.

#define _GNU_SOURCE // MADV_POPULATE_WRITE

#include "shims.h"

#ifdef __linux__

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE // of Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

// From this size on the C library takes memory from the system for a block.
enum { large = 128 << 10 };

static void* allocate(void* context, size_t size) {
  (void)context;
  return malloc(size);
}

static void* reallocate(void* context, void* block, size_t size) {
  (void)context;
  return realloc(block, size);
}

static void deallocate(void* context, void* block) {
  (void)context;
  free(block);
}

// Gives the whole pages of a block their memory. Where the system cannot, page faults do.
static void populate(void* block, size_t size) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t start = ((uintptr_t)block + page - 1) & -page, end = ((uintptr_t)block + size) & -page;
  if (start < end) {
    (void)madvise((void*)start, end - start, MADV_POPULATE_WRITE);
  }
}

static void* aligned_allocate(void* context, size_t alignment, size_t size) {
  (void)context;
  void* block = NULL;
  if (posix_memalign(&block, alignment, size) != 0) {
    return NULL;
  }
  if (size >= large) {
    populate(block, size);
  }
  return block;
}

const struct xnn_allocator* xpwc_allocator(void) {
  static const struct xnn_allocator allocator = {NULL, allocate, reallocate, deallocate, aligned_allocate, deallocate};
  return &allocator;
}

#else

const struct xnn_allocator* xpwc_allocator(void) { return NULL; }

#endif
