// Part of the reader where XPWC_READER_TEST is defined: it sees its insides.
#include "entries.h"

xpwc_status xpwc_reader_get_entry(xpwc_reader* r, uint64_t i, xpwc_reader_entry* e) {
  if (i >= r->records) {
    return XPWC_STATUS_INVALID_ARGUMENT;
  }
  const uint8_t* row = row_at(r, i);
  const bool biased = (row[42] & has_bias) != 0;
  memset(e, 0, sizeof(*e));
  e->kernel = (const char*)r->strings + u32(row + 52);
  e->kernel_size = u32(row + 56);
  e->bias = biased ? (const char*)r->strings + u32(row + 60) : NULL;
  e->bias_size = biased ? u32(row + 64) : 0;
  e->offset = u64(row);
  e->payload = r->map + e->offset;
  e->size = u64(row + 8);
  e->seed = u32(row + 32);
  e->fingerprint_id = u32(row + 36);
  memcpy(e->layout, layout_at(r, u16(row + 40)), 16);
  memcpy(e->packing, row + 68, 16);
  memcpy(e->sum, row + 16, 16);
  return XPWC_STATUS_OK;
}
