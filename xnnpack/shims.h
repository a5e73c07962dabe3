// Forms that keep the binding's source the same for XNNPACK headers from November 2024 to August 2026.
#ifndef XPWC_XNNPACK_SHIMS_H
#define XPWC_XNNPACK_SHIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pthreadpool.h>
#include <xnnpack.h>

#include "limit_cpu.h"

// Concatenates 2 to 5 values; any other count is xnn_status_invalid_parameter.
enum xnn_status xpwc_define_concatenate(xnn_subgraph_t subgraph, int32_t axis, size_t count, const uint32_t* inputs,
                                        uint32_t output);

// Splits into 2 to 4 equal values; any other count is xnn_status_invalid_parameter.
enum xnn_status xpwc_define_even_split(xnn_subgraph_t subgraph, int32_t axis, uint32_t input, size_t count,
                                       const uint32_t* outputs);

enum xnn_status xpwc_define_static_constant_pad(xnn_subgraph_t subgraph, size_t num_dims, const size_t* pre,
                                                const size_t* post, float value, uint32_t input, uint32_t output);

enum xnn_status xpwc_define_unary(xnn_subgraph_t subgraph, enum xnn_unary_operator op, float a, float b, uint32_t input,
                                  uint32_t output);

// n elements of IEEE half precision to single precision, on the calling thread.
enum xnn_status xpwc_widen_f16(size_t n, const uint16_t* src, float* dst);

// Returns the build identifier, and its size in bytes: 0 if there is none.
const void* xpwc_xnnpack_build(size_t* size);

// Whether XNNPACK chose its kernels while the program's libraries were loaded.
bool xpwc_initialized_when_loaded(void);

// XNNPACK of 2024 has no approximate GELU. Newer ones have it next to the absolute value, where that one has rounding.
enum {
  xpwc_unary_approximate_gelu =
      xnn_unary_bankers_rounding == xnn_unary_abs + 2 ? xnn_unary_abs + 1 : xnn_unary_invalid
};

// Returns what XNNPACK is to allocate its memory with; NULL: the C library alone.
const struct xnn_allocator* xpwc_allocator(void);

// Returns zeroed memory, or null. Large memory is the system's own pages: the C library would write zeros into what it
// has freed, and so touch a buffer for the most tokens where few are used.
void* xpwc_allocate(size_t size);

// Frees what xpwc_allocate has returned for the size.
void xpwc_free(void* memory, size_t size);

// Gives what was freed back to the system, where the C library keeps it otherwise. Whether there was anything.
bool xpwc_give_back(void);

#endif
