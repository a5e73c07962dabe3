// What Go asks of XNNPACK.
#ifndef XPWC_ASK_H
#define XPWC_ASK_H

#include "key.h"
#include "node.h"

// Receives the packed bytes of one fixed tensor. The caller of the functions below defines it.
void xpwcSampleBytes(uintptr_t sample, uint32_t fingerprint_id, void* packed, size_t n);

// Hands the packed bytes of fixed tensors of all families to xpwcSampleBytes, for that sample: see layout.c. Returns the
// status of xnn_initialize, or xnn_status_out_of_memory.
enum xnn_status xpwc_probe_layout(uintptr_t sample);

// Does so for one family, given by a node's operator and datatypes, and reports whether some of its kernels are
// transposed. The kernels of an operator on images have these sides. Returns an error status if no tensors are of that
// family, or XNNPACK does not support all of them here.
enum xnn_status xpwc_probe_family(
    const struct xpwc_node* family, const size_t* sides, size_t sides_count, uintptr_t sample, bool* transposed);

// Returns XNNPACK's build identifier, or else the linker's of its library, and its size in bytes: 0 if it has neither.
const void* xpwc_build_identifier(size_t* size);

// Returns the ABI of the weights cache of the XNNPACK that the program is linked with; xpwc_abi_unknown if it hides the
// functions that show it. It differs from xpwc_header_abi() if a program was linked with an XNNPACK other than the one whose
// header xpwc was compiled with: then neither may call the other's callbacks.
enum xpwc_abi xpwc_linked_abi(void);

// Fills in the properties of this processor that XNNPACK may choose kernels by. Returns the number of words, 0 where
// they are not known.
enum { XPWC_PROCESSOR_WORDS = 32 };
size_t xpwc_processor(uint32_t words[XPWC_PROCESSOR_WORDS]);

// Zeros for queries, reused from one to the next. Initialize it to zero; the caller frees bytes.
struct xpwc_zeros {
  void* bytes;
  size_t size;
};

// Returns the number of bytes that XNNPACK asks a weights cache to reserve for a node, or 0 if it asks for none or does
// not support the node. elements is the length of the longest of the node's tensors, scales_count the number of its
// channels or blocks. fingerprint_id is set to that of the key that XNNPACK looks up first. Only one thread at a time
// may use the same zeros.
size_t xpwc_packed_size(
    const struct xpwc_node* node, size_t elements, size_t scales_count, struct xpwc_zeros* zeros,
    uint32_t* fingerprint_id);

#endif
