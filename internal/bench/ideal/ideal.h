// A weights cache that knows every answer in advance.
#ifndef XPWC_IDEAL_H
#define XPWC_IDEAL_H

#include <stdbool.h>
#include <stddef.h>

#include <xnnpack.h>

struct ideal_payload {
  void* address;
  size_t size;
};

// Look-ups are answered with the payloads in their order. Those for which there are none miss, and what is packed then is
// appended. XNNPACK is given the address of the first member.
struct ideal {
  struct xnn_weights_cache_provider callbacks;
  // Zero, for the members of a library newer than the header this was compiled against.
  void (*unknown[8])(void);
  struct ideal_payload* payload;
  size_t payloads, capacity;
  size_t next;
  bool missed;
  void** block; // what was reserved
  size_t blocks, block_capacity;
};

struct ideal* ideal_create(void);

// Appends a payload, which stays the caller's. False if there is no memory.
bool ideal_append(struct ideal* cache, void* address, size_t size);

void ideal_delete(struct ideal* cache);

#endif
