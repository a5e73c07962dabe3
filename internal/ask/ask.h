// What Go asks of XNNPACK.
#ifndef XPWC_ASK_H
#define XPWC_ASK_H

#include "key.h"
#include "node.h"

// Is given what XNNPACK packed of one fixed tensor. Who asks has it.
void xpwcSampleBytes(uintptr_t sample, uint32_t fingerprint_id, void* packed, size_t n);

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

// Returns the ABI of the weights cache of the XNNPACK that the program is linked with; xpwc_abi_unknown if it hides the
// functions that show it. It differs from xpwc_header_abi() if a program was linked with an XNNPACK other than the one whose
// header xpwc was compiled with: then neither may call the other's callbacks.
enum xpwc_abi xpwc_linked_abi(void);

// Fills in what distinguishes this processor from others that XNNPACK could choose other kernels on. Returns how many
// words that are, 0 where it is not known.
enum { XPWC_PROCESSOR_WORDS = 32 };
size_t xpwc_processor(uint32_t words[XPWC_PROCESSOR_WORDS]);

// Zeros for questions, kept from one to the next. It begins as zero; who asks frees bytes.
struct xpwc_zeros {
  void* bytes;
  size_t size;
};

// Returns how many bytes XNNPACK asks a weights cache to reserve for what it packs for a node, or 0 if it asks for none
// or does not support the node. The longest of the node's tensors has so many elements; scales_count are as many as its
// channels or blocks. fingerprint_id is that of the key that it looks up before. One thread may ask at a time
// with the same zeros.
size_t xpwc_packed_size(
    const struct xpwc_node* node, size_t elements, size_t scales_count, struct xpwc_zeros* zeros,
    uint32_t* fingerprint_id);

#endif
