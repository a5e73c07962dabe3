// XNNPACK's header, and in it the key of a look-up and the provider of a weights cache.
#ifndef XPWC_KEY_H
#define XPWC_KEY_H

#include <stdbool.h>
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

// An xnn_weights_cache_look_up_key with members after fingerprint_id, which xpwc does not know, does not compile.
typedef char xpwc_key_is_known
    [!xpwc_key_has_fingerprint_id || sizeof(struct xnn_weights_cache_look_up_key) <= xpwc_key_end + sizeof(uint64_t) ? 1 : -1];

enum {
  xpwc_provider_end = offsetof(struct xnn_weights_cache_provider, delete_cache) + sizeof(void (*)(void)),
  xpwc_provider_has_alias_data = sizeof(struct xnn_weights_cache_provider) > xpwc_provider_end,
};

// Nor does an xnn_weights_cache_provider with members after alias_data.
typedef char xpwc_provider_is_known
    [!xpwc_provider_has_alias_data || sizeof(struct xnn_weights_cache_provider) == xpwc_provider_end + sizeof(void (*)(void))
         ? 1
         : -1];

// The three states of that ABI.
enum xpwc_abi {
  xpwc_abi_unknown,
  xpwc_abi_2024, // with neither
  xpwc_abi_2025, // with fingerprint_id
  xpwc_abi_2026, // with both
};

// Returns that of the header at hand.
static inline enum xpwc_abi xpwc_header_abi(void) {
  return xpwc_provider_has_alias_data  ? xpwc_abi_2026
         : xpwc_key_has_fingerprint_id ? xpwc_abi_2025
                                       : xpwc_abi_2024;
}

// Returns which XNNPACKs have an ABI, for messages. Static storage.
static inline const char* xpwc_abi_name(enum xpwc_abi abi) {
  switch (abi) {
    case xpwc_abi_2024:
      return "XNNPACK from before November 2025 (look-up key of 24 bytes, provider of 56)";
    case xpwc_abi_2025:
      return "XNNPACK of November 2025 to March 2026 (look-up key of 32 bytes, provider of 56)";
    case xpwc_abi_2026:
      return "XNNPACK of March 2026 or later (look-up key of 32 bytes, provider of 64)";
    case xpwc_abi_unknown:
      break;
  }
  return "XNNPACK of unknown age";
}

// Gives a provider alias_data, if the header at hand has it.
static inline void xpwc_set_alias_data(
    struct xnn_weights_cache_provider* provider, enum xnn_status (*alias_data)(void* context, void* alias, void* original)) {
  if (xpwc_provider_has_alias_data) {
    memcpy((char*)provider + xpwc_provider_end, &alias_data, sizeof(alias_data));
  }
}

// A provider that is large enough for libraries newer than the header this was compiled against.
struct xpwc_bare_provider {
  struct xnn_weights_cache_provider callbacks;
  void (*unknown[8])(void); // zero
};

static inline bool xpwc_never_finalized(void* context) {
  (void)context;
  return false;
}

static inline void* xpwc_offset_to_addr(void* context, size_t offset) {
  (void)context;
  return (void*)offset; // which is the address
}

static inline enum xnn_status xpwc_delete_nothing(void* context) {
  (void)context;
  return xnn_status_success;
}

// Fills in a provider that is never finalized: its runtimes are not set up.
static inline void xpwc_bare_provider_init(
    struct xpwc_bare_provider* provider, void* context,
    size_t (*look_up)(void* context, const struct xnn_weights_cache_look_up_key* key),
    void* (*reserve_space)(void* context, size_t n),
    size_t (*look_up_or_insert)(
        void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size)) {
  memset(provider, 0, sizeof(*provider));
  provider->callbacks.context = context;
  provider->callbacks.look_up = look_up;
  provider->callbacks.reserve_space = reserve_space;
  provider->callbacks.look_up_or_insert = look_up_or_insert;
  provider->callbacks.is_finalized = xpwc_never_finalized;
  provider->callbacks.offset_to_addr = xpwc_offset_to_addr;
  provider->callbacks.delete_cache = xpwc_delete_nothing;
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
