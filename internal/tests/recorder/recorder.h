// A weights cache in plain memory that writes down what XNNPACK asks of it.
#ifndef XPWC_RECORDER_H
#define XPWC_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xnnpack.h>

struct recorder_entry {
  uint32_t seed;
  const void* kernel;
  const void* bias;
  void* packed;
  size_t size;
};

// A copy that XNNPACK made of a tensor's content, as float32, and reported: its address stands for the original's.
struct recorder_alias {
  const void* copy;
  const void* original;
};

enum { recorder_limit = 64 };

// Calls and entries past the limit are counted, not kept; past it reservations fail.
struct recorder {
  struct xnn_weights_cache_provider provider;
  void (*alias_data)(void);  // where the header is older than this member of the provider
  bool finalized;
  size_t calls;
  char call[recorder_limit];
  size_t entries;
  struct recorder_entry entry[recorder_limit];
  size_t blocks;
  void* block[recorder_limit];
  size_t aliases;
  struct recorder_alias alias[recorder_limit];
};

struct recorder* recorder_create(void);
void recorder_delete(struct recorder* r);

#endif
