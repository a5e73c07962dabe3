// Loops over rows of numbers, which the compiler makes vector instructions of.
#ifndef XPWC_LOOPS_H
#define XPWC_LOOPS_H

#include <stddef.h>
#include <stdint.h>

// The elements. loops_cgo.go maps models.Element to them.
enum xpwc_element {
    XPWC_I8, XPWC_U8, XPWC_I16, XPWC_I32, XPWC_I64, XPWC_F32, XPWC_F64, XPWC_BOOL
};

// The operations: loops.go has the same list.
enum xpwc_loop {
    XPWC_NO_LOOP,
    XPWC_EQUAL, XPWC_NOT_EQUAL, XPWC_LESS, XPWC_LESS_OR_EQUAL, XPWC_GREATER, XPWC_GREATER_OR_EQUAL, // to booleans
    XPWC_AND, XPWC_OR, XPWC_XOR, // of booleans, or the bits of integers
    XPWC_ADD, XPWC_SUBTRACT, XPWC_MULTIPLY, XPWC_MAXIMUM, XPWC_MINIMUM,
    // Of single precision, and of integers that are not divided by 0:
    XPWC_DIVIDE, XPWC_REMAINDER, XPWC_FLOOR_REMAINDER, XPWC_FLOOR_QUOTIENT, XPWC_TRUNCATED_QUOTIENT,
    // Of single precision alone, two numbers:
    XPWC_POWER, XPWC_ARC_TANGENT_2,
    // and one number:
    XPWC_ARC_COSINE, XPWC_AREA_COSINE, XPWC_ARC_SINE, XPWC_AREA_SINE, XPWC_ARC_TANGENT, XPWC_AREA_TANGENT,
    XPWC_HYPERBOLIC_COSINE, XPWC_HYPERBOLIC_SINE, XPWC_TANGENT, XPWC_ERROR_FUNCTION, XPWC_EXPONENTIAL_LESS_1,
    XPWC_LOGARITHM_10, XPWC_LOGARITHM_1_MORE, XPWC_LOGARITHM_2, XPWC_TRUNCATE, XPWC_SIGN,
    // Of one integer:
    XPWC_ABSOLUTE, XPWC_NEGATE, XPWC_NOT
};

// Each returns 0 if there is no such loop. A step is 1, or 0 where one number is used for the whole row.

// Computes n results of two rows. Results of comparisons are booleans.
int xpwc_combine(enum xpwc_loop loop, enum xpwc_element element, void* dst, const void* a, size_t a_step, const void* b,
                 size_t b_step, size_t n);

// Computes n results of one row.
int xpwc_apply(enum xpwc_loop loop, enum xpwc_element element, void* dst, const void* src, size_t n);

// Folds each of so many rows into its number of sums with XPWC_ADD, XPWC_MULTIPLY, XPWC_MAXIMUM or XPWC_MINIMUM.
int xpwc_fold(enum xpwc_loop loop, enum xpwc_element element, void* sums, size_t rows, const void* src, size_t n);

// Combines n numbers with each of so many rows in turn.
int xpwc_fold_columns(enum xpwc_loop loop, enum xpwc_element element, void* sums, size_t rows, const void* src, size_t n);

// Copies elements of so many bytes, of one or more dimensions. Along dimension d there are n[d], which lie dst_steps[d]
// and src_steps[d] elements apart.
int xpwc_move(size_t size, void* dst, const void* src, size_t dims, const ptrdiff_t* n, const ptrdiff_t* dst_steps,
              const ptrdiff_t* src_steps);

// Converts n numbers.
int xpwc_convert(enum xpwc_element to, void* dst, enum xpwc_element from, const void* src, size_t n);

// Converts n numbers of half precision to single precision, and back, rounded to the nearest.
void xpwc_widen_half(float* dst, const uint16_t* src, size_t n);
void xpwc_narrow_half(uint16_t* dst, const float* src, size_t n);

// Copies elements of so many bytes, from a where a flag is not 0, and from b elsewhere.
int xpwc_select(size_t size, void* dst, const uint8_t* flags, const void* a, size_t a_step, const void* b, size_t b_step,
                size_t n);

// Transforms n complex numbers, a power of 2, in the order of their reversed bits: the butterflies of a Fourier
// transform. The roots are those of an fft of spectrum.go.
void xpwc_butterflies(double* numbers, const double* roots, size_t n);

// A transform of n complex numbers, a power of 2, as an fft of spectrum.go: its roots, and pairs of places that are
// exchanged first.
struct xpwc_fft {
    size_t n;
    const double* roots;
    size_t exchanges;
    const int32_t* places;
};

// Transforms rows of 2n real numbers, times a factor, as n pairs. The source has the first numbers of each row, and
// step numbers from one row to the next; the other numbers are zeros. Each row becomes n + 1 complex numbers. roots are
// those of a realFFT of spectrum.go. work has room for 8n numbers.
void xpwc_fourier_rows(double* dst, const float* src, size_t rows, size_t step, size_t given, double factor,
                       const struct xpwc_fft* pairs, const double* roots, double* work);

// Replaces the columns of a matrix of complex numbers by their transforms. work has room for 8n numbers.
void xpwc_fourier_columns(double* numbers, size_t columns, const struct xpwc_fft* f, double* work);

// Computes the absolute values of n complex numbers.
void xpwc_magnitudes(float* dst, const float* src, size_t n);

// The sizes of an attention. Query i sees seen + i * more keys, more being 0 or 1.
typedef struct {
    size_t queries, heads, groups, width, capacity;
    size_t seen, more;
    float scale;
} xpwc_attention;

// Computes the attention of queries [queries, heads, width] to keys and values [capacity, groups, width]. The mask
// [queries, capacity] is added to the scores; it may be null. scores has room for 4 numbers of each key that the last
// query sees.
void xpwc_attend(float* dst, float* scores, const float* query, const float* keys, const float* values,
                 const float* mask, const xpwc_attention* a);

#endif
