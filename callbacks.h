// The provider struct that a session hands to XNNPACK, and the Go functions behind it.
#ifndef XPWC_CALLBACKS_H
#define XPWC_CALLBACKS_H

#include <stddef.h>
#include <stdint.h>

#include <xnnpack.h>

// One session's xnn_weights_cache_provider. XNNPACK is given the address of its first member.
struct xpwc_provider;

// Returns a new provider for the session that the handle stands for, or NULL when there is no memory. The caller frees it
// once the runtime that uses it is deleted.
struct xpwc_provider* xpwc_provider_new(uintptr_t session);
void xpwc_provider_free(struct xpwc_provider* provider);

// From here on is_finalized answers true. Executing threads may be asking at the same time.
void xpwc_provider_finalize(struct xpwc_provider* provider);

// Hands the packed bytes of fixed tensors to xpwcLayoutBytes, with that hash: see layout.c. Returns the status of
// xnn_initialize, or xnn_status_out_of_memory.
enum xnn_status xpwc_probe_layout(uintptr_t hash);

#endif
