// A weights cache that writes to a file what XNNPACK packs into one buffer.
#ifndef XPWC_WRITTEN_H
#define XPWC_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xnnpack.h>

// No look-up is answered. What is handed in is written to the file, and its offset there returned. XNNPACK is given the
// address of the first member.
struct written {
  struct xnn_weights_cache_provider callbacks;
  // Zero, for the members of a library newer than the header this was compiled against.
  void (*unknown[8])(void);
  intptr_t file;
  size_t end;  // of the file
  bool failed; // to write
  void* buffer;
  size_t capacity;
  uint8_t* base; // where the file is mapped, or NULL
};

struct written* written_create(intptr_t file);

// Maps the file. False if the system cannot.
bool written_map(struct written* cache);

void written_delete(struct written* cache);

#endif
