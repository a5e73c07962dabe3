#include "loops.h"
#include "vectors.h"

#include <string.h>

enum { block = 16 }; // rows and columns that are moved together, so that each line of the CPU's cache is read once

// A row, and the last two dims, of elements of type T. A short row is moved by a loop, which takes less time than
// a call of memcpy.
#define MOVES(NAME, T)                                                                                                \
    typedef T NAME __attribute__((aligned(1), may_alias));                                                            \
                                                                                                                      \
    static void row_##NAME(NAME* restrict dst, ptrdiff_t dst_step, const NAME* restrict src, ptrdiff_t src_step,      \
                           ptrdiff_t n) {                                                                             \
        if (dst_step != 1) {                                                                                          \
            for (ptrdiff_t i = 0; i < n; i++) { dst[i * dst_step] = src[i * src_step]; }                              \
        } else if (src_step == 1 && n * sizeof(T) > 32) {                                                             \
            memcpy(dst, src, n * sizeof(T));                                                                          \
        } else if (src_step == 0) {                                                                                   \
            const T x = *src;                                                                                         \
            for (ptrdiff_t i = 0; i < n; i++) { dst[i] = x; }                                                         \
        } else if (src_step == -1) {                                                                                  \
            const NAME* first = src - (n - 1);                                                                        \
            for (ptrdiff_t i = 0; i < n; i++) { dst[i] = first[n - 1 - i]; }                                          \
        } else {                                                                                                      \
            for (ptrdiff_t i = 0; i < n; i++) { dst[i] = src[i * src_step]; }                                         \
        }                                                                                                             \
    }                                                                                                                 \
                                                                                                                      \
    static void turn_##NAME(NAME* restrict dst, ptrdiff_t dst_step, const NAME* restrict src, ptrdiff_t src_step,     \
                            ptrdiff_t rows, ptrdiff_t n) {                                                            \
        for (ptrdiff_t first = 0; first < rows; first += block) {                                                     \
            const ptrdiff_t height = rows - first < block ? rows - first : block;                                     \
            const NAME* column = src + first;                                                                         \
            NAME* out = dst + first * dst_step;                                                                       \
            for (ptrdiff_t x = 0; x < n; x++, column += src_step, out++) {                                            \
                for (ptrdiff_t y = 0; y < height; y++) { out[y * dst_step] = column[y]; }                             \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
                                                                                                                      \
    static void short_rows_##NAME(NAME* restrict dst, ptrdiff_t dst_step, const NAME* restrict src, ptrdiff_t src_step, \
                                  ptrdiff_t rows, ptrdiff_t n) {                                                      \
        for (ptrdiff_t i = 0; i < rows; i++, dst += dst_step, src += src_step) {                                      \
            dst[0] = src[0];                                                                                          \
            dst[1] = src[1];                                                                                          \
            if (n > 2) { dst[2] = src[2]; }                                                                           \
            if (n > 3) { dst[3] = src[3]; }                                                                           \
        }                                                                                                             \
    }                                                                                                                 \
                                                                                                                      \
    static void move_##NAME(NAME* dst, const NAME* src, size_t dims, const ptrdiff_t* n, const ptrdiff_t* dst_steps,  \
                            const ptrdiff_t* src_steps) {                                                             \
        if (dims == 1) {                                                                                              \
            row_##NAME(dst, *dst_steps, src, *src_steps, *n);                                                         \
        } else if (dims == 2 && *src_steps == 1 && dst_steps[1] == 1) {                                               \
            turn_##NAME(dst, *dst_steps, src, src_steps[1], n[0], n[1]);                                              \
        } else if (dims == 2 && src_steps[1] == 1 && dst_steps[1] == 1 && n[1] <= 4) {                                \
            short_rows_##NAME(dst, *dst_steps, src, *src_steps, n[0], n[1]);                                          \
        } else {                                                                                                      \
            for (ptrdiff_t i = 0; i < *n; i++, dst += *dst_steps, src += *src_steps) {                                \
                move_##NAME(dst, src, dims - 1, n + 1, dst_steps + 1, src_steps + 1);                                 \
            }                                                                                                         \
        }                                                                                                             \
    }

MOVES(one, uint8_t)
MOVES(two, uint16_t)
MOVES(four, uint32_t)
MOVES(eight, uint64_t)

int xpwc_move(size_t size, void* dst, const void* src, size_t dims, const ptrdiff_t* n,
              const ptrdiff_t* dst_steps, const ptrdiff_t* src_steps) {
    switch (size) {
    case 1: move_one(dst, src, dims, n, dst_steps, src_steps); return 1;
    case 2: move_two(dst, src, dims, n, dst_steps, src_steps); return 1;
    case 4: move_four(dst, src, dims, n, dst_steps, src_steps); return 1;
    case 8: move_eight(dst, src, dims, n, dst_steps, src_steps); return 1;
    default: return 0;
    }
}
