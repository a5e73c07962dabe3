// A weights cache that writes to a file what XNNPACK packs, or knows every answer from such a file.
#ifndef XPWC_BENCH_PROVIDER_H
#define XPWC_BENCH_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <xnnpack.h>

// Where a payload lies in the file.
struct place {
  uint64_t offset, size;
};

struct block;

// XNNPACK is given the address of the first member. An offset, to XNNPACK, is the distance from base.
struct provider {
  struct xnn_weights_cache_provider callbacks;
  // Zero, for the members of a library newer than the header this was compiled against.
  void (*unknown[8])(void);
  FILE* file;           // what is packed is written to it; NULL if it is known
  uint64_t end;         // of the file
  bool failed;          // to write, or to note a place
  struct place* place;  // of the answers to look-ups, in their order
  size_t places, capacity;
  size_t next;          // the place that answers the next look-up
  size_t missed;        // look-ups that found nothing
  bool asked;           // the last call was such a look-up
  struct block* block;  // the last one that was reserved
  const uint8_t* base;  // where the file is mapped, or NULL
};

// With a new file, or with the places of a known one, which become the provider's.
struct provider* provider_create(FILE* file, struct place* place, size_t places);

// Ends writing. False if anything went wrong.
bool provider_written(struct provider* p);

void provider_delete(struct provider* p);

#endif
