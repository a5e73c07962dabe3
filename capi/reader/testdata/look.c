// look FILE...
//
// Opens each file, whatever its content, and looks its entries up, and entries that it does not have. Prints the hits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entries.h"

// What has the packing of each entry cannot be known, so that only those without one can be found.
static void look(xpwc_reader* reader, const char* path) {
  xpwc_reader_stats stats;
  xpwc_reader_get_stats(reader, &stats);
  xnn_weights_cache_t provider = xpwc_reader_provider(reader);
  struct xnn_weights_cache_look_up_key key;
  memset(&key, 0, sizeof(key));
  char content[4096] = {0};
  unsigned long sum = 0, read = 0;
  for (uint64_t i = 0; i < stats.entries && i < 2000; i++) {
    xpwc_reader_entry e;
    if (xpwc_reader_get_entry(reader, i, &e) != XPWC_STATUS_OK) {
      break;
    }
    for (uint64_t at = 0; at < e.size; at++) {
      sum += ((const unsigned char*)e.payload)[at];
    }
    read++;
    char* name = malloc(e.kernel_size + e.bias_size + 2);
    memcpy(name, e.kernel, e.kernel_size);
    name[e.kernel_size] = 0;
    xpwc_reader_name(reader, name, content + 2 * (i % 2000), i % 64, NULL);
    memcpy(name, e.kernel + e.kernel_size, e.bias_size);
    name[e.bias_size] = 0;
    xpwc_reader_name(reader, name, content + 2 * (i % 2000) + 1, 0, NULL);
    free(name);
    key.seed = e.seed;
    key.kernel = content + 2 * (i % 2000);
    key.bias = e.bias == NULL ? NULL : content + 2 * (i % 2000) + 1;
    provider->look_up(provider->context, &key);
    void* packed = provider->reserve_space(provider->context, (size_t)(e.size % 100000));
    if (packed == NULL) {
      abort();
    }
    memset(packed, 1, (size_t)(e.size % 100000));
    provider->look_up_or_insert(provider->context, &key, packed, (size_t)(e.size % 100000));
  }
  key.kernel = content;
  xpwc_reader_name(reader, "no such tensor", content, 1, NULL);
  provider->look_up(provider->context, &key);
  xpwc_reader_verify(reader);
  xpwc_reader_get_stats(reader, &stats);
  printf("%s: %lu entries of %lu read, sum %lu%s\n", path, read, (unsigned long)stats.entries, sum,
         stats.damaged ? ", damaged" : "");
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    xpwc_reader* reader;
    const xpwc_status status = xpwc_reader_open(argv[i], NULL, &reader);
    if (status != XPWC_STATUS_OK) {
      printf("%s: status %u\n", argv[i], (unsigned)status);
      continue;
    }
    look(reader, argv[i]);
    xpwc_reader_close(reader);
  }
  return 0;
}
