#include "shims.h"

#include <stdlib.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>

// The binding has these numbers without cgo, too.
_Static_assert(XNN_MAX_TENSOR_DIMS == 6 && XNN_MIN_BLOCKSIZE == 32 && XNN_EXTRA_BYTES == 16, "sizes");
_Static_assert(XNN_VALUE_FLAG_EXTERNAL_INPUT == 1 && XNN_VALUE_FLAG_EXTERNAL_OUTPUT == 2, "flags of values");
_Static_assert(XNN_FLAG_HINT_SPARSE_INFERENCE == 1 && XNN_FLAG_HINT_FP16_INFERENCE == 2 &&
                   XNN_FLAG_FORCE_FP16_INFERENCE == 4 && XNN_FLAG_BASIC_PROFILING == 8,
               "flags of runtimes");

#ifdef XPWC_XNNPACK_TAKES_LISTS

enum xnn_status xpwc_define_concatenate(xnn_subgraph_t subgraph, int32_t axis, size_t count, const uint32_t* in,
                                        uint32_t output) {
  return count < 2 || count > 5 ? xnn_status_invalid_parameter
                                : xnn_define_concatenate(subgraph, axis, count, in, output, 0);
}

enum xnn_status xpwc_define_even_split(xnn_subgraph_t subgraph, int32_t axis, uint32_t input, size_t count,
                                       const uint32_t* out) {
  return count < 2 || count > 4 ? xnn_status_invalid_parameter
                                : xnn_define_even_split(subgraph, axis, input, count, out, 0);
}

enum xnn_status xpwc_define_static_constant_pad(xnn_subgraph_t subgraph, size_t num_dims, const size_t* pre,
                                                const size_t* post, float value, uint32_t input, uint32_t output) {
  return xnn_define_static_constant_pad_v2(subgraph, num_dims, pre, post, value, input, output, 0);
}

#else

// xnn_define_concatenate2..5, xnn_define_even_split2..4 and xnn_define_static_constant_pad are the only forms that the
// older headers have; the newer ones mark them deprecated in favour of forms that the older ones do not have.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif

enum xnn_status xpwc_define_concatenate(xnn_subgraph_t subgraph, int32_t axis, size_t count, const uint32_t* in,
                                        uint32_t output) {
  switch (count) {
    case 2:
      return xnn_define_concatenate2(subgraph, axis, in[0], in[1], output, 0);
    case 3:
      return xnn_define_concatenate3(subgraph, axis, in[0], in[1], in[2], output, 0);
    case 4:
      return xnn_define_concatenate4(subgraph, axis, in[0], in[1], in[2], in[3], output, 0);
    case 5:
      return xnn_define_concatenate5(subgraph, axis, in[0], in[1], in[2], in[3], in[4], output, 0);
    default:
      return xnn_status_invalid_parameter;
  }
}

enum xnn_status xpwc_define_even_split(xnn_subgraph_t subgraph, int32_t axis, uint32_t input, size_t count,
                                       const uint32_t* out) {
  switch (count) {
    case 2:
      return xnn_define_even_split2(subgraph, axis, input, out[0], out[1], 0);
    case 3:
      return xnn_define_even_split3(subgraph, axis, input, out[0], out[1], out[2], 0);
    case 4:
      return xnn_define_even_split4(subgraph, axis, input, out[0], out[1], out[2], out[3], 0);
    default:
      return xnn_status_invalid_parameter;
  }
}

enum xnn_status xpwc_define_static_constant_pad(xnn_subgraph_t subgraph, size_t num_dims, const size_t* pre,
                                                const size_t* post, float value, uint32_t input, uint32_t output) {
  // This form has no count: XNNPACK copies XNN_MAX_TENSOR_DIMS elements of each array.
  size_t padded_pre[XNN_MAX_TENSOR_DIMS] = {0};
  size_t padded_post[XNN_MAX_TENSOR_DIMS] = {0};
  if (num_dims > XNN_MAX_TENSOR_DIMS) {
    return xnn_status_unsupported_parameter;
  }
  if (num_dims != 0) {
    memcpy(padded_pre, pre, num_dims * sizeof(size_t));
    memcpy(padded_post, post, num_dims * sizeof(size_t));
  }
  return xnn_define_static_constant_pad(subgraph, padded_pre, padded_post, value, input, output, 0);
}

#endif

enum xnn_status xpwc_define_unary(xnn_subgraph_t subgraph, enum xnn_unary_operator op, float a, float b, uint32_t input,
                                  uint32_t output) {
  union xnn_unary_params params;
  memset(&params, 0, sizeof(params));
  switch (op) {
    case xnn_unary_clamp:
      params.clamp.min = a;
      params.clamp.max = b;
      break;
    case xnn_unary_elu:
      params.elu.alpha = a;
      break;
    case xnn_unary_leaky_relu:
      params.leaky_relu.negative_slope = a;
      break;
    default:
      return xnn_define_unary(subgraph, op, NULL, input, output, 0);
  }
  return xnn_define_unary(subgraph, op, &params, input, output, 0);
}

static enum xnn_status widen_f16(size_t n, const void* src, void* dst) {
  if (n == 0) {
    return xnn_status_success;
  }
  return xnn_run_unary_elementwise_nc(xnn_unary_convert, xnn_datatype_fp16, xnn_datatype_fp32, NULL, NULL, NULL, 0,
                                      /*batch_size=*/1, n, n, n, NULL, src, dst);
}

// The kernel may read past the end of its source, which may be the end of a mapping: the last elements take a detour.
enum xnn_status xpwc_widen_f16(size_t n, const uint16_t* src, float* dst) {
  enum { tail = 64 };
  const size_t rest = n < tail ? n : tail;
  n -= rest;
  enum xnn_status status = widen_f16(n, src, dst);
  uint16_t in[tail + XNN_EXTRA_BYTES] = {0};
  float out[tail];
  if (status != xnn_status_success || rest == 0) {
    return status;
  }
  memcpy(in, src + n, rest * sizeof(*in));
  status = widen_f16(rest, in, out);
  memcpy(dst + n, out, rest * sizeof(*out));
  return status;
}

#ifdef XPWC_XNNPACK_HAS_NO_BUILD_IDENTIFIER
// Of internal/ask: the identifier that the linker gave the library.
const void* xpwc_build_identifier(size_t* size);
const void* xpwc_xnnpack_build(size_t* size) { return xpwc_build_identifier(size); }
#else
const void* xpwc_xnnpack_build(size_t* size) {
  *size = xnn_experimental_get_build_identifier_size();
  return xnn_experimental_get_build_identifier_data();
}
#endif

bool xpwc_give_back(void) {
#ifdef __GLIBC__
  return malloc_trim(0) != 0;
#else
  return false;
#endif
}

#ifdef _WIN32
void* xpwc_allocate(size_t size) { return calloc(1, size); }

void xpwc_free(void* memory, size_t size) {
  (void)size;
  free(memory);
}
#else
enum { large = 256 << 10 };

void* xpwc_allocate(size_t size) {
  if (size < large) return calloc(1, size);
  void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void xpwc_free(void* memory, size_t size) {
  if (size < large) {
    free(memory);
  } else {
    munmap(memory, size);
  }
}
#endif
