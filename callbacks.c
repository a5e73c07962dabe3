#include "callbacks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "_cgo_export.h"

struct xpwc_provider {
  struct xnn_weights_cache_provider callbacks;
  // Zero, for the members of a library newer than the header this was compiled against.
  void (*unknown[8])(void);
  uintptr_t session;
  pid_t process;
  atomic_bool finalized;
};

// A child of fork has none of Go's threads: a call of Go would wait for ever. XNNPACK packs nothing there.
static bool has_go(const struct xpwc_provider* provider) { return provider->process == getpid(); }

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  const struct xpwc_provider* provider = context;
  if (!has_go(provider)) {
    return SIZE_MAX;
  }
  return xpwcLookUp(provider->session, key->seed, (uintptr_t)key->kernel, (uintptr_t)key->bias, xpwc_fingerprint_id(key));
}

static void* reserve_space(void* context, size_t n) {
  const struct xpwc_provider* provider = context;
  return has_go(provider) ? xpwcReserveSpace(provider->session, n) : NULL;
}

static size_t look_up_or_insert(
    void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  const struct xpwc_provider* provider = context;
  return xpwcLookUpOrInsert(
      provider->session, key->seed, (uintptr_t)key->kernel, (uintptr_t)key->bias, xpwc_fingerprint_id(key),
      (uintptr_t)packed, size);
}

static enum xnn_status alias_data(void* context, void* alias, void* original) {
  const struct xpwc_provider* provider = context;
  if (!has_go(provider)) {
    return xnn_status_invalid_state;
  }
  xpwcAliasData(provider->session, (uintptr_t)alias, (uintptr_t)original);
  return xnn_status_success;
}

// The last three never enter Go: executing threads call them.

static bool is_finalized(void* context) {
  const struct xpwc_provider* provider = context;
  return atomic_load_explicit(&provider->finalized, memory_order_acquire);
}

static void* offset_to_addr(void* context, size_t offset) {
  (void)context;
  return (void*)offset;
}

static enum xnn_status delete_cache(void* context) {
  (void)context; // the session owns the provider
  return xnn_status_success;
}

struct xpwc_provider* xpwc_provider_new(uintptr_t session) {
  struct xpwc_provider* provider = calloc(1, sizeof(*provider));
  if (provider == NULL) {
    return NULL;
  }
  provider->session = session;
  provider->process = getpid();
  provider->callbacks.context = provider;
  provider->callbacks.look_up = look_up;
  provider->callbacks.reserve_space = reserve_space;
  provider->callbacks.look_up_or_insert = look_up_or_insert;
  provider->callbacks.is_finalized = is_finalized;
  provider->callbacks.offset_to_addr = offset_to_addr;
  provider->callbacks.delete_cache = delete_cache;
  xpwc_set_alias_data(&provider->callbacks, alias_data);
  return provider;
}

void xpwc_provider_free(struct xpwc_provider* provider) { free(provider); }

void xpwc_provider_finalize(struct xpwc_provider* provider) {
  atomic_store_explicit(&provider->finalized, true, memory_order_release);
}
