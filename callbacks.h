// The provider struct that a session hands to XNNPACK, and the Go functions that it calls.
#ifndef XPWC_CALLBACKS_H
#define XPWC_CALLBACKS_H

#include <stdint.h>

#include "internal/ask/key.h"

// One session's xnn_weights_cache_provider. XNNPACK is given the address of its first member.
struct xpwc_provider;

// Returns a new provider for the session that the handle stands for, or NULL when there is no memory. The caller frees it
// once the runtime that uses it is deleted.
struct xpwc_provider* xpwc_provider_new(uintptr_t session);
void xpwc_provider_free(struct xpwc_provider* provider);

// From here on is_finalized answers true. Executing threads may be asking at the same time.
void xpwc_provider_finalize(struct xpwc_provider* provider);

#endif
