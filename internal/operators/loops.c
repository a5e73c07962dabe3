#include "loops.h"
#include "vectors.h"

#include <math.h>

// The loops are the same for integers with a sign and without.
#pragma GCC diagnostic ignored "-Wtype-limits"

#define EACH INDEPENDENT for (size_t i = 0; i < n; i++)

// One loop for each way in which rows are read, so that the compiler sees how far apart the numbers are.
#define ROWS(D, T, RESULT)                                             \
    do {                                                               \
        D* out = dst;                                                  \
        const T* p = a;                                                \
        const T* q = b;                                                \
        if (a_step == 1 && b_step == 1) {                              \
            EACH { const T x = p[i], y = q[i]; out[i] = (D)(RESULT); } \
        } else if (a_step == 1) {                                      \
            const T y = q[0];                                          \
            EACH { const T x = p[i]; out[i] = (D)(RESULT); }           \
        } else if (b_step == 1) {                                      \
            const T x = p[0];                                          \
            EACH { const T y = q[i]; out[i] = (D)(RESULT); }           \
        } else {                                                       \
            const T x = p[0], y = q[0];                                \
            const D z = (D)(RESULT);                                   \
            EACH { out[i] = z; }                                       \
        }                                                              \
        return 1;                                                      \
    } while (0)

// A number that is none makes the result none.
#define MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MIN(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

// What every element has. U is a type in which sums and products of T wrap around.
#define NUMBERS(T, U)                                     \
    case XPWC_EQUAL: ROWS(uint8_t, T, x == y);            \
    case XPWC_NOT_EQUAL: ROWS(uint8_t, T, x != y);        \
    case XPWC_LESS: ROWS(uint8_t, T, x < y);              \
    case XPWC_LESS_OR_EQUAL: ROWS(uint8_t, T, x <= y);    \
    case XPWC_GREATER: ROWS(uint8_t, T, x > y);           \
    case XPWC_GREATER_OR_EQUAL: ROWS(uint8_t, T, x >= y); \
    case XPWC_ADD: ROWS(T, T, (U)x + (U)y);               \
    case XPWC_SUBTRACT: ROWS(T, T, (U)x - (U)y);          \
    case XPWC_MULTIPLY: ROWS(T, T, (U)x * (U)y);          \
    case XPWC_MAXIMUM: ROWS(T, T, MAX(x, y));             \
    case XPWC_MINIMUM: ROWS(T, T, MIN(x, y))

// Quotients and remainders that wrap around: y is not 0, and the least number divided by -1 is the least.
#define QUOTIENT(T, U) (T)(y == (T)-1 && (T)-1 < 0 ? (U)0 - (U)x : (U)(x / (y == (T)-1 && (T)-1 < 0 ? 1 : y)))
#define REMAINDER(T) (T)(y == (T)-1 && (T)-1 < 0 ? 0 : x % (y == (T)-1 && (T)-1 < 0 ? 1 : y))
#define MIXED(T) (REMAINDER(T) != 0 && (x < 0) != (y < 0))

#define COMBINE_INTEGERS(NAME, T, U)                                                                              \
    CLONED static int combine_##NAME(enum xpwc_loop loop, void* dst, const void* a, size_t a_step, const void* b, \
                              size_t b_step, size_t n) {                                                          \
        switch (loop) {                                                                                           \
            NUMBERS(T, U);                                                                                        \
        case XPWC_AND: ROWS(T, T, x & y);                                                                         \
        case XPWC_OR: ROWS(T, T, x | y);                                                                          \
        case XPWC_XOR: ROWS(T, T, x ^ y);                                                                         \
        case XPWC_DIVIDE:                                                                                         \
        case XPWC_TRUNCATED_QUOTIENT: ROWS(T, T, QUOTIENT(T, U));                                                 \
        case XPWC_FLOOR_QUOTIENT: ROWS(T, T, (U)QUOTIENT(T, U) - (U)MIXED(T));                                    \
        case XPWC_REMAINDER: ROWS(T, T, REMAINDER(T));                                                            \
        case XPWC_FLOOR_REMAINDER: ROWS(T, T, (U)REMAINDER(T) + (MIXED(T) ? (U)y : 0));                           \
        default: return 0;                                                                                        \
        }                                                                                                         \
    }

COMBINE_INTEGERS(i8, int8_t, uint32_t)
COMBINE_INTEGERS(u8, uint8_t, uint32_t)
COMBINE_INTEGERS(i16, int16_t, uint32_t)
COMBINE_INTEGERS(i32, int32_t, uint32_t)
COMBINE_INTEGERS(i64, int64_t, uint64_t)

// The integer without the fraction: adding 2^23 rounds to the nearest one. From there on every number is an integer.
static inline __attribute__((always_inline)) float truncated(float x) {
    const float size = fabsf(x), nearest = size + 0x1p23f - 0x1p23f;
    const float whole = nearest - (float)(nearest > size);
    return copysignf(size < 0x1p23f ? whole : size, x);
}

static inline __attribute__((always_inline)) float rounded_down(float x) {
    const float whole = truncated(x);
    return whole - (float)(whole > x);
}

// It has the sign of the second number.
static float floor_remainder(float x, float y) {
    const float rest = fmodf(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

CLONED static int combine_f32(enum xpwc_loop loop, void* dst, const void* a, size_t a_step, const void* b,
                              size_t b_step, size_t n) {
    switch (loop) {
        NUMBERS(float, float);
    case XPWC_DIVIDE: ROWS(float, float, x / y);
    case XPWC_POWER: ROWS(float, float, powf(x, y));
    case XPWC_ARC_TANGENT_2: ROWS(float, float, atan2f(x, y));
    case XPWC_REMAINDER: ROWS(float, float, fmodf(x, y));
    case XPWC_FLOOR_REMAINDER: ROWS(float, float, floor_remainder(x, y));
    case XPWC_FLOOR_QUOTIENT: ROWS(float, float, rounded_down(x / y));
    case XPWC_TRUNCATED_QUOTIENT: ROWS(float, float, truncated(x / y));
    default: return 0;
    }
}

CLONED static int combine_f64(enum xpwc_loop loop, void* dst, const void* a, size_t a_step, const void* b,
                              size_t b_step, size_t n) {
    switch (loop) {
        NUMBERS(double, double);
    default: return 0;
    }
}

// Any byte but 0 is true.
CLONED static int combine_bool(enum xpwc_loop loop, void* dst, const void* a, size_t a_step, const void* b,
                              size_t b_step, size_t n) {
    switch (loop) {
    case XPWC_EQUAL: ROWS(uint8_t, uint8_t, !x == !y);
    case XPWC_NOT_EQUAL:
    case XPWC_XOR: ROWS(uint8_t, uint8_t, !x != !y);
    case XPWC_LESS: ROWS(uint8_t, uint8_t, !x & (y != 0));
    case XPWC_LESS_OR_EQUAL: ROWS(uint8_t, uint8_t, !x | (y != 0));
    case XPWC_GREATER: ROWS(uint8_t, uint8_t, !y & (x != 0));
    case XPWC_GREATER_OR_EQUAL: ROWS(uint8_t, uint8_t, !y | (x != 0));
    case XPWC_AND: ROWS(uint8_t, uint8_t, (x != 0) & (y != 0));
    case XPWC_OR: ROWS(uint8_t, uint8_t, (x != 0) | (y != 0));
    default: return 0;
    }
}

int xpwc_combine(enum xpwc_loop loop, enum xpwc_element element, void* dst, const void* a, size_t a_step, const void* b,
                 size_t b_step, size_t n) {
    switch (element) {
    case XPWC_I8: return combine_i8(loop, dst, a, a_step, b, b_step, n);
    case XPWC_U8: return combine_u8(loop, dst, a, a_step, b, b_step, n);
    case XPWC_I16: return combine_i16(loop, dst, a, a_step, b, b_step, n);
    case XPWC_I32: return combine_i32(loop, dst, a, a_step, b, b_step, n);
    case XPWC_I64: return combine_i64(loop, dst, a, a_step, b, b_step, n);
    case XPWC_F32: return combine_f32(loop, dst, a, a_step, b, b_step, n);
    case XPWC_F64: return combine_f64(loop, dst, a, a_step, b, b_step, n);
    case XPWC_BOOL: return combine_bool(loop, dst, a, a_step, b, b_step, n);
    }
    return 0;
}

#define APPLY_INTEGERS(NAME, T, U)                                                                    \
    CLONED static int apply_##NAME(enum xpwc_loop loop, void* dst, const void* src, size_t n) {       \
        T* restrict out = dst;                                                                        \
        const T* in = src;                                                                            \
        switch (loop) {                                                                               \
        case XPWC_ABSOLUTE: EACH { out[i] = (T)(in[i] < 0 ? 0 - (U)in[i] : (U)in[i]); } return 1;     \
        case XPWC_NEGATE: EACH { out[i] = (T)(0 - (U)in[i]); } return 1;                              \
        case XPWC_NOT: EACH { out[i] = (T)~in[i]; } return 1;                                         \
        default: return 0;                                                                            \
        }                                                                                             \
    }

APPLY_INTEGERS(i8, int8_t, uint32_t)
APPLY_INTEGERS(u8, uint8_t, uint32_t)
APPLY_INTEGERS(i16, int16_t, uint32_t)
APPLY_INTEGERS(i32, int32_t, uint32_t)
APPLY_INTEGERS(i64, int64_t, uint64_t)

CLONED static int apply_f32(enum xpwc_loop loop, void* dst, const void* src, size_t n) {
    float* restrict out = dst;
    const float* in = src;
#define ROW(RESULT)                                      \
    do {                                                 \
        EACH { const float x = in[i]; out[i] = RESULT; } \
        return 1;                                        \
    } while (0)
    switch (loop) {
    case XPWC_ARC_COSINE: ROW(acosf(x));
    case XPWC_AREA_COSINE: ROW(acoshf(x));
    case XPWC_ARC_SINE: ROW(asinf(x));
    case XPWC_AREA_SINE: ROW(asinhf(x));
    case XPWC_ARC_TANGENT: ROW(atanf(x));
    case XPWC_AREA_TANGENT: ROW(atanhf(x));
    case XPWC_HYPERBOLIC_COSINE: ROW(coshf(x));
    case XPWC_HYPERBOLIC_SINE: ROW(sinhf(x));
    case XPWC_TANGENT: ROW(tanf(x));
    case XPWC_ERROR_FUNCTION: ROW(erff(x));
    case XPWC_EXPONENTIAL_LESS_1: ROW(expm1f(x));
    case XPWC_LOGARITHM_10: ROW(log10f(x));
    case XPWC_LOGARITHM_1_MORE: ROW(log1pf(x));
    case XPWC_LOGARITHM_2: ROW(log2f(x));
    case XPWC_TRUNCATE: ROW(truncated(x));
    case XPWC_SIGN: ROW(x != x ? x : (float)((x > 0) - (x < 0)));
    default: return 0;
    }
#undef ROW
}

int xpwc_apply(enum xpwc_loop loop, enum xpwc_element element, void* dst, const void* src, size_t n) {
    switch (element) {
    case XPWC_I8: return apply_i8(loop, dst, src, n);
    case XPWC_U8: return apply_u8(loop, dst, src, n);
    case XPWC_I16: return apply_i16(loop, dst, src, n);
    case XPWC_I32: return apply_i32(loop, dst, src, n);
    case XPWC_I64: return apply_i64(loop, dst, src, n);
    case XPWC_F32: return apply_f32(loop, dst, src, n);
    default: return 0;
    }
}

// Several results at the same time, since each waits for the one before; numbers[lanes] of each are read in turn. NEXT
// makes y the result for y and x. The order of sums and products of floats is part of their results.
#define FOLD(T, NEXT)                                                                                   \
    do {                                                                                                \
        enum { lanes = 64 / sizeof(T), turns = 8 };                                                     \
        T lane[lanes];                                                                                  \
        const T* in = src;                                                                              \
        size_t i = 0;                                                                                   \
        for (int k = 0; k < lanes; k++) { lane[k] = loop == XPWC_MULTIPLY; }                            \
        for (; n - i >= lanes * turns; i += lanes * turns) {                                            \
            for (int k = 0; k < lanes; k++) {                                                           \
                T y = lane[k];                                                                          \
                for (int turn = 0; turn < turns; turn++) {                                              \
                    const T x = in[i + turn * lanes + k];                                               \
                    y = (T)(NEXT);                                                                      \
                }                                                                                       \
                lane[k] = y;                                                                            \
            }                                                                                           \
        }                                                                                               \
        T y = *(T*)sum;                                                                                 \
        for (int k = 0; k < lanes; k++) {                                                               \
            const T x = lane[k];                                                                        \
            y = (T)(NEXT);                                                                              \
        }                                                                                               \
        for (; i < n; i++) {                                                                            \
            const T x = in[i];                                                                          \
            y = (T)(NEXT);                                                                              \
        }                                                                                               \
        *(T*)sum = y;                                                                                   \
        return 1;                                                                                       \
    } while (0)

// The same where the order does not matter. A number that is none makes an extreme none.
#define FOLD_ANY(T, FLAG, NEUTRAL, NEXT, EXTREME)                                                       \
    do {                                                                                                \
        enum { lanes = 128 / sizeof(T) };                                                               \
        T lane[lanes];                                                                                  \
        FLAG nans[lanes];                                                                               \
        const T* in = src;                                                                              \
        for (int k = 0; k < lanes; k++) { lane[k] = NEUTRAL; nans[k] = 0; }                             \
        for (; n >= 4 * lanes; n -= 4 * lanes, in += 4 * lanes) {                                       \
            for (int k = 0; k < lanes; k++) {                                                           \
                const T a = in[k], b = in[lanes + k], c = in[2 * lanes + k], d = in[3 * lanes + k];     \
                T first = a, second = c, y = lane[k];                                                   \
                { const T x = b, y = a; first = (T)(NEXT); }                                            \
                { const T x = d, y = c; second = (T)(NEXT); }                                           \
                { const T x = second, y = first; first = (T)(NEXT); }                                   \
                { const T x = first; lane[k] = (T)(NEXT); }                                             \
                nans[k] |= EXTREME && ((a != a) | (b != b) | (c != c) | (d != d));                      \
            }                                                                                           \
        }                                                                                               \
        while (n > 0) {                                                                                 \
            const size_t rest = n < lanes ? n : lanes;                                                  \
            for (size_t k = 0; k < rest; k++) {                                                         \
                const T x = in[k], y = lane[k];                                                         \
                lane[k] = (T)(NEXT);                                                                    \
                nans[k] |= EXTREME && x != x;                                                           \
            }                                                                                           \
            n -= rest;                                                                                  \
            in += rest;                                                                                 \
        }                                                                                               \
        HALVE(T, 64, NEXT) HALVE(T, 32, NEXT) HALVE(T, 16, NEXT) HALVE(T, 8, NEXT) HALVE(T, 4, NEXT)    \
        HALVE(T, 2, NEXT) HALVE(T, 1, NEXT)                                                             \
        const T x = lane[0], y = *(T*)sum;                                                              \
        *(T*)sum = EXTREME && (nans[0] | (y != y)) ? (T)NAN : (T)(NEXT);                                \
        return 1;                                                                                       \
    } while (0)
#define HALVE(T, HALF, NEXT)                                                                            \
    for (int k = 0; HALF < lanes && k < HALF; k++) {                                                    \
        const T x = lane[k + HALF], y = lane[k];                                                        \
        lane[k] = (T)(NEXT);                                                                            \
        nans[k] |= nans[k + HALF];                                                                      \
    }

// Four rows at the same time, so that the results are read and written once for all of them.
#define FOLD_ROWS(T, NEXT, EXTREME)                                                                     \
    do {                                                                                                \
        T* restrict out = sums;                                                                         \
        const T *restrict a = src, *restrict b = a + n, *restrict c = b + n, *restrict d = c + n;       \
        EACH {                                                                                          \
            const T first = out[i];                                                                     \
            T y = first;                                                                                \
            { const T x = a[i]; y = (T)(NEXT); }                                                        \
            { const T x = b[i]; y = (T)(NEXT); }                                                        \
            { const T x = c[i]; y = (T)(NEXT); }                                                        \
            { const T x = d[i]; y = (T)(NEXT); }                                                        \
            const int none = (a[i] != a[i]) | (b[i] != b[i]) | (c[i] != c[i]) | (d[i] != d[i]);         \
            out[i] = EXTREME && (none | (first != first)) ? (T)NAN : y;                                 \
        }                                                                                               \
        return 1;                                                                                       \
    } while (0)

enum { folded = 4 };

#define FOLDS(NAME, T, U, FLAG, LEAST, GREATEST, SUM, PRODUCT, EXTREME)                                 \
    CLONED static int fold_##NAME(enum xpwc_loop loop, void* sum, const void* src, size_t n) {          \
        switch (loop) {                                                                                 \
        case XPWC_ADD: SUM;                                                                             \
        case XPWC_MULTIPLY: PRODUCT;                                                                    \
        case XPWC_MAXIMUM: FOLD_ANY(T, FLAG, LEAST, x > y ? x : y, EXTREME);                            \
        case XPWC_MINIMUM: FOLD_ANY(T, FLAG, GREATEST, x < y ? x : y, EXTREME);                         \
        default: return 0;                                                                              \
        }                                                                                               \
    }                                                                                                   \
    CLONED static int fold_rows_##NAME(enum xpwc_loop loop, void* sums, const void* src, size_t n) {    \
        switch (loop) {                                                                                 \
        case XPWC_ADD: FOLD_ROWS(T, (U)y + (U)x, 0);                                                    \
        case XPWC_MULTIPLY: FOLD_ROWS(T, (U)y * (U)x, 0);                                               \
        case XPWC_MAXIMUM: FOLD_ROWS(T, x > y ? x : y, EXTREME);                                        \
        case XPWC_MINIMUM: FOLD_ROWS(T, x < y ? x : y, EXTREME);                                        \
        default: return 0;                                                                              \
        }                                                                                               \
    }
#define INTEGER_FOLDS(NAME, T, U, LEAST, GREATEST)                                                      \
    FOLDS(NAME, T, U, T, LEAST, GREATEST, FOLD_ANY(T, T, 0, (U)x + (U)y, 0),                            \
          FOLD_ANY(T, T, 1, (U)x * (U)y, 0), 0)
#define FLOAT_FOLDS(NAME, T, FLAG)                                                                      \
    FOLDS(NAME, T, T, FLAG, -INFINITY, INFINITY, FOLD(T, x + y), FOLD(T, x * y), 1)

INTEGER_FOLDS(i8, int8_t, uint32_t, INT8_MIN, INT8_MAX)
INTEGER_FOLDS(u8, uint8_t, uint32_t, 0, UINT8_MAX)
INTEGER_FOLDS(i16, int16_t, uint32_t, INT16_MIN, INT16_MAX)
INTEGER_FOLDS(i32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
INTEGER_FOLDS(i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
FLOAT_FOLDS(f32, float, int32_t)
FLOAT_FOLDS(f64, double, int64_t)

int xpwc_fold(enum xpwc_loop loop, enum xpwc_element element, void* sums, size_t rows, const void* src, size_t n) {
#define EACH_ROW(NAME, T)                                                                 \
    do {                                                                                  \
        for (size_t i = 0; i < rows; i++) {                                               \
            if (!fold_##NAME(loop, (T*)sums + i, (const T*)src + i * n, n)) { return 0; } \
        }                                                                                 \
        return 1;                                                                         \
    } while (0)
    switch (element) {
    case XPWC_I8: EACH_ROW(i8, int8_t);
    case XPWC_U8: EACH_ROW(u8, uint8_t);
    case XPWC_I16: EACH_ROW(i16, int16_t);
    case XPWC_I32: EACH_ROW(i32, int32_t);
    case XPWC_I64: EACH_ROW(i64, int64_t);
    case XPWC_F32: EACH_ROW(f32, float);
    case XPWC_F64: EACH_ROW(f64, double);
    default: return 0;
    }
#undef EACH_ROW
}

static const size_t sizes[] = {[XPWC_I8] = 1, [XPWC_U8] = 1, [XPWC_I16] = 2, [XPWC_I32] = 4,
                               [XPWC_I64] = 8, [XPWC_F32] = 4, [XPWC_F64] = 8, [XPWC_BOOL] = 1};

static int fold_rows(enum xpwc_loop loop, enum xpwc_element element, void* sums, const void* src, size_t n) {
    switch (element) {
    case XPWC_I8: return fold_rows_i8(loop, sums, src, n);
    case XPWC_U8: return fold_rows_u8(loop, sums, src, n);
    case XPWC_I16: return fold_rows_i16(loop, sums, src, n);
    case XPWC_I32: return fold_rows_i32(loop, sums, src, n);
    case XPWC_I64: return fold_rows_i64(loop, sums, src, n);
    case XPWC_F32: return fold_rows_f32(loop, sums, src, n);
    case XPWC_F64: return fold_rows_f64(loop, sums, src, n);
    default: return 0;
    }
}

int xpwc_fold_columns(enum xpwc_loop loop, enum xpwc_element element, void* sums, size_t rows, const void* src,
                      size_t n) {
    const char* row = src;
    const size_t size = n * sizes[element];
    for (; rows >= folded && fold_rows(loop, element, sums, row, n); rows -= folded) { row += folded * size; }
    for (size_t i = 0; i < rows; i++, row += size) {
        if (!xpwc_combine(loop, element, sums, sums, 1, row, 1, n)) { return 0; }
    }
    return 1;
}

#define CONVERT(D, T, RESULT)                             \
    do {                                                  \
        D* restrict out = dst;                            \
        const T* in = src;                                \
        EACH { const T x = in[i]; out[i] = (D)(RESULT); } \
        return 1;                                         \
    } while (0)

// Floats are cut off to integers.
#define CONVERSIONS(NAME, T, VALUE)                                                                \
    CLONED static int convert_##NAME(enum xpwc_element to, void* dst, const void* src, size_t n) { \
        switch (to) {                                                                              \
        case XPWC_I8: CONVERT(int8_t, T, VALUE);                                                   \
        case XPWC_U8: CONVERT(uint8_t, T, VALUE);                                                  \
        case XPWC_I16: CONVERT(int16_t, T, VALUE);                                                 \
        case XPWC_I32: CONVERT(int32_t, T, VALUE);                                                 \
        case XPWC_I64: CONVERT(int64_t, T, VALUE);                                                 \
        case XPWC_F32: CONVERT(float, T, VALUE);                                                   \
        case XPWC_F64: CONVERT(double, T, VALUE);                                                  \
        case XPWC_BOOL: CONVERT(uint8_t, T, x != 0);                                               \
        }                                                                                          \
        return 0;                                                                                  \
    }

CONVERSIONS(i8, int8_t, x)
CONVERSIONS(u8, uint8_t, x)
CONVERSIONS(i16, int16_t, x)
CONVERSIONS(i32, int32_t, x)
CONVERSIONS(i64, int64_t, x)
CONVERSIONS(f32, float, x)
CONVERSIONS(f64, double, x)
CONVERSIONS(bool, uint8_t, x != 0)

int xpwc_convert(enum xpwc_element to, void* dst, enum xpwc_element from, const void* src, size_t n) {
    switch (from) {
    case XPWC_I8: return convert_i8(to, dst, src, n);
    case XPWC_U8: return convert_u8(to, dst, src, n);
    case XPWC_I16: return convert_i16(to, dst, src, n);
    case XPWC_I32: return convert_i32(to, dst, src, n);
    case XPWC_I64: return convert_i64(to, dst, src, n);
    case XPWC_F32: return convert_f32(to, dst, src, n);
    case XPWC_F64: return convert_f64(to, dst, src, n);
    case XPWC_BOOL: return convert_bool(to, dst, src, n);
    }
    return 0;
}

union single { float number; uint32_t bits; };

CLONED void xpwc_widen_half(float* restrict dst, const uint16_t* restrict src, size_t n) {
    EACH {
        union single x = {.bits = (src[i] & 0x7fffu) << 13};
        const uint32_t infinite = x.bits >= 0x0f800000 ? 0x7f800000 : 0; // or no number
        x.number *= 0x1p112f;                                            // the exponents' bias differs by that
        x.bits |= infinite | (src[i] & 0x8000u) << 16;
        dst[i] = x.number;
    }
}

CLONED void xpwc_narrow_half(uint16_t* restrict dst, const float* restrict src, size_t n) {
    EACH {
        union single x = {.number = src[i]};
        const uint32_t sign = x.bits >> 16 & 0x8000u;
        x.bits &= 0x7fffffff;
        const union single small = {.number = x.number + 0.5f}; // whose last bit is that of the smallest halves
        const uint32_t usual = (x.bits + 0xc8000fffu + (x.bits >> 13 & 1)) >> 13;
        const uint32_t large = x.bits > 0x7f800000 ? 0x7e00 : 0x7c00;
        const uint32_t half = x.bits < 0x38800000 ? small.bits - 0x3f000000 : usual;
        dst[i] = (uint16_t)(sign | (x.bits >= 0x47800000 ? large : half));
    }
}

#define SELECT(T)                                                           \
    do {                                                                    \
        T* restrict out = dst;                                              \
        const T* p = a;                                                     \
        const T* q = b;                                                     \
        if (a_step == 1 && b_step == 1) {                                   \
            EACH { const T x = p[i], y = q[i]; out[i] = flags[i] ? x : y; } \
        } else if (a_step == 1) {                                           \
            const T y = q[0];                                               \
            EACH { const T x = p[i]; out[i] = flags[i] ? x : y; }           \
        } else if (b_step == 1) {                                           \
            const T x = p[0];                                               \
            EACH { const T y = q[i]; out[i] = flags[i] ? x : y; }           \
        } else {                                                            \
            const T x = p[0], y = q[0];                                     \
            EACH { out[i] = flags[i] ? x : y; }                             \
        }                                                                   \
        return 1;                                                           \
    } while (0)

CLONED int xpwc_select(size_t size, void* dst, const uint8_t* flags, const void* a, size_t a_step, const void* b,
                       size_t b_step, size_t n) {
    switch (size) {
    case 1: SELECT(uint8_t);
    case 2: SELECT(uint16_t);
    case 4: SELECT(uint32_t);
    case 8: SELECT(uint64_t);
    default: return 0;
    }
}

CLONED void xpwc_butterflies(double* numbers, const double* roots, size_t n) {
    for (size_t i = 0; i + 1 < n; i += 2) {
        double* p = numbers + 2 * i;
        const double re = p[2], im = p[3];
        p[2] = p[0] - re;
        p[3] = p[1] - im;
        p[0] += re;
        p[1] += im;
    }
    for (size_t half = 2; half < n; half *= 2) {
        const double* root = roots + 2 * half;
        for (size_t first = 0; first < n; first += 2 * half) {
            double* restrict a = numbers + 2 * first;
            double* restrict b = a + 2 * half;
            for (size_t k = 0; k < 2 * half; k += 2) {
                const double re = b[k] * root[k] - b[k + 1] * root[k + 1];
                const double im = b[k] * root[k + 1] + b[k + 1] * root[k];
                const double ar = a[k], ai = a[k + 1];
                a[k] = ar + re;
                a[k + 1] = ai + im;
                b[k] = ar - re;
                b[k + 1] = ai - im;
            }
        }
    }
}
