#include "callbacks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "_cgo_export.h"

struct xpwc_provider {
  struct xpwc_bare_provider bare; // offsets are addresses: see its offset_to_addr
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

// Executing threads call this, and offset_to_addr: they never enter Go.
static bool is_finalized(void* context) {
  const struct xpwc_provider* provider = context;
  return atomic_load_explicit(&provider->finalized, memory_order_acquire);
}

struct xpwc_provider* xpwc_provider_new(uintptr_t session) {
  struct xpwc_provider* provider = calloc(1, sizeof(*provider));
  if (provider == NULL) {
    return NULL;
  }
  provider->session = session;
  provider->process = getpid();
  xpwc_bare_provider_init(&provider->bare, provider, look_up, reserve_space, look_up_or_insert);
  provider->bare.callbacks.is_finalized = is_finalized;
  xpwc_set_alias_data(&provider->bare.callbacks, alias_data);
  return provider;
}

void xpwc_provider_free(struct xpwc_provider* provider) { free(provider); }

void xpwc_provider_finalize(struct xpwc_provider* provider) {
  atomic_store_explicit(&provider->finalized, true, memory_order_release);
}
