// What tests see of a file.
#ifndef XPWC_READER_ENTRIES_H
#define XPWC_READER_ENTRIES_H

#include "../xpwc_reader.h"

// An entry of the file. Strings are not terminated, and last as long as the reader.
typedef struct xpwc_reader_entry {
  const char *kernel, *bias; // names; bias is NULL where there is none
  size_t kernel_size, bias_size;
  const void* payload; // packed weights, mapped
  uint64_t offset;     // of the payload in the file
  uint64_t size;
  uint32_t seed, fingerprint_id;  // of XNNPACK's key
  uint8_t layout[16], packing[16]; // digests
  uint8_t sum[16];
} xpwc_reader_entry;

// Returns entry i of xpwc_reader_stats.entries.
// Statuses: OK, INVALID_ARGUMENT.
xpwc_status xpwc_reader_get_entry(xpwc_reader* reader, uint64_t i, xpwc_reader_entry* entry);

#endif
