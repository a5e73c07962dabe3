// The provider struct that a session hands to XNNPACK, and the Go functions that it calls.
#ifndef XPWC_CALLBACKS_H
#define XPWC_CALLBACKS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__has_include)
#if !__has_include(<xnnpack.h>)
#error "XNNPACK is not found. Give the directories of one that is installed: CGO_CFLAGS=-I/its/include CGO_LDFLAGS=-L/its/lib. Or run eval \"$(make -s env)\" in the directory of xpwc, which fetches one and sets both."
#endif
#endif
#include <xnnpack.h>

#include "node.h"

// One session's xnn_weights_cache_provider. XNNPACK is given the address of its first member.
struct xpwc_provider;

// Returns a new provider for the session that the handle stands for, or NULL when there is no memory. The caller frees it
// once the runtime that uses it is deleted.
struct xpwc_provider* xpwc_provider_new(uintptr_t session);
void xpwc_provider_free(struct xpwc_provider* provider);

// From here on is_finalized answers true. Executing threads may be asking at the same time.
void xpwc_provider_finalize(struct xpwc_provider* provider);

// Returns a key's fingerprint_id, or zero where XNNPACK has none.
uint32_t xpwc_fingerprint_id(const struct xnn_weights_cache_look_up_key* key);

// Hands the packed bytes of fixed tensors of all families to xpwcSampleBytes, for that sample: see layout.c. Returns the
// status of xnn_initialize, or xnn_status_out_of_memory.
enum xnn_status xpwc_probe_layout(uintptr_t sample);

// Does so for one family, of which a node's operator and datatypes say which it is, and reports whether there are transposed
// kernels among them. Those of an operator on images have these sides. The status is another if no tensors are of that
// family, or XNNPACK does not support all of them here.
enum xnn_status xpwc_probe_family(
    const struct xpwc_node* family, const size_t* sides, size_t sides_count, uintptr_t sample, bool* transposed);

// Returns what XNNPACK identifies its build by, and its size in bytes: 0 if it does not say.
const void* xpwc_build_identifier(size_t* size);

// Returns how many bytes XNNPACK asks a weights cache to reserve for what it packs for a node, or 0 if it asks for none
// or does not support the node. The longest of the node's tensors has so many elements; scales_count are as many as its
// channels or blocks. fingerprint_id is that of the key that it looks up before. One thread may ask at a time.
size_t xpwc_packed_size(const struct xpwc_node* node, size_t elements, size_t scales_count, uint32_t* fingerprint_id);

#endif
