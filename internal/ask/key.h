// XNNPACK's header, and the key of a look-up in it.
#ifndef XPWC_KEY_H
#define XPWC_KEY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <xnnpack.h>

// XNNPACK's ABI has grown twice: the key got fingerprint_id (November 2025), the provider alias_data (March 2026). Whether
// the header at hand has them shows in the sizes of its structs, so one source works with all, and the members are reached
// by where they must lie instead of by name.
enum {
  xpwc_key_end = offsetof(struct xnn_weights_cache_look_up_key, bias) + sizeof(void*),
  xpwc_key_has_fingerprint_id = sizeof(struct xnn_weights_cache_look_up_key) > xpwc_key_end,
};

_Static_assert(
    !xpwc_key_has_fingerprint_id || sizeof(struct xnn_weights_cache_look_up_key) <= xpwc_key_end + sizeof(uint64_t),
    "xnn_weights_cache_look_up_key has members after fingerprint_id that xpwc does not know");

enum {
  xpwc_provider_end = offsetof(struct xnn_weights_cache_provider, delete_cache) + sizeof(void (*)(void)),
  xpwc_provider_has_alias_data = sizeof(struct xnn_weights_cache_provider) > xpwc_provider_end,
};

_Static_assert(
    !xpwc_provider_has_alias_data || sizeof(struct xnn_weights_cache_provider) == xpwc_provider_end + sizeof(void (*)(void)),
    "xnn_weights_cache_provider has members after alias_data that xpwc does not know");

// Gives a provider alias_data, if the header at hand has it.
static inline void xpwc_set_alias_data(
    struct xnn_weights_cache_provider* provider, enum xnn_status (*alias_data)(void* context, void* alias, void* original)) {
  if (xpwc_provider_has_alias_data) {
    memcpy((char*)provider + xpwc_provider_end, &alias_data, sizeof(alias_data));
  }
}

// Returns a key's fingerprint_id, or zero where XNNPACK has none.
static inline uint32_t xpwc_fingerprint_id(const struct xnn_weights_cache_look_up_key* key) {
  uint32_t id = 0;
  if (xpwc_key_has_fingerprint_id) {
    memcpy(&id, (const char*)key + xpwc_key_end, sizeof(id));
  }
  return id;
}

#endif
