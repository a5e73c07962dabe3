// Fourier transforms of four lines at the same time: each instruction computes one number of all four.
#include "loops.h"
#include "vectors.h"

enum { together = 4 };

typedef double lines __attribute__((vector_size(together * sizeof(double)), aligned(sizeof(double))));

// Transforms n complex numbers of each line. The real parts of a number are followed by the imaginary parts.
static inline __attribute__((always_inline)) void transform(lines* x, const struct xpwc_fft* f) {
    for (size_t i = 0; i < f->exchanges; i++) {
        lines* p = x + 2 * f->places[2 * i];
        lines* q = x + 2 * f->places[2 * i + 1];
        const lines re = p[0], im = p[1];
        p[0] = q[0];
        p[1] = q[1];
        q[0] = re;
        q[1] = im;
    }
    for (size_t i = 0; i + 1 < f->n; i += 2) {
        lines* p = x + 2 * i;
        const lines re = p[2], im = p[3];
        p[2] = p[0] - re;
        p[3] = p[1] - im;
        p[0] += re;
        p[1] += im;
    }
    for (size_t half = 2; half < f->n; half *= 2) {
        const double* root = f->roots + 2 * half;
        for (size_t first = 0; first < f->n; first += 2 * half) {
            lines* restrict a = x + 2 * first;
            lines* restrict b = a + 2 * half;
            for (size_t k = 0; k < 2 * half; k += 2) {
                const lines re = b[k] * root[k] - b[k + 1] * root[k + 1];
                const lines im = b[k] * root[k + 1] + b[k + 1] * root[k];
                const lines ar = a[k], ai = a[k + 1];
                a[k] = ar + re;
                a[k + 1] = ai + im;
                b[k] = ar - re;
                b[k + 1] = ai - im;
            }
        }
    }
}

CLONED void xpwc_fourier_rows(double* dst, const float* src, size_t rows, size_t step, size_t given, double factor,
                              const struct xpwc_fft* pairs, const double* roots, double* work) {
    const size_t m = pairs->n, out = 2 * (m + 1);
    for (size_t row = 0; row < rows; row += together, src += together * step, dst += together * out) {
        const size_t count = rows - row < together ? rows - row : together;
        lines* x = (lines*)work;
        for (size_t k = 0; k < 2 * m; k++) { x[k] = (lines){0}; }
        for (size_t l = 0; l < count; l++) {
            for (size_t k = 0; k < given; k++) { work[together * k + l] = src[l * step + k] * factor; }
        }
        transform(x, pairs);
        const lines re = x[0], im = x[1];
        for (size_t l = 0; l < count; l++) {
            double* line = dst + l * out;
            line[0] = re[l] + im[l];
            line[2 * m] = re[l] - im[l];
            line[1] = line[2 * m + 1] = 0;
        }
        for (size_t k = 1; k <= m / 2; k++) {
            const lines ar = x[2 * k], ai = x[2 * k + 1], br = x[2 * (m - k)], bi = -x[2 * (m - k) + 1];
            const double c = roots[2 * k], s = roots[2 * k + 1];
            const lines er = (ar + br) / 2, ei = (ai + bi) / 2, dr = (ai - bi) / 2, di = -(ar - br) / 2;
            const lines odd_re = dr * c - di * s, odd_im = dr * s + di * c;
            const lines high_re = er - odd_re, high_im = odd_im - ei, low_re = er + odd_re, low_im = ei + odd_im;
            for (size_t l = 0; l < count; l++) {
                double* low = dst + l * out + 2 * k;
                double* high = dst + l * out + 2 * (m - k);
                low[0] = low_re[l];
                low[1] = low_im[l];
                high[0] = high_re[l];
                high[1] = high_im[l];
            }
        }
    }
}

CLONED void xpwc_fourier_columns(double* numbers, size_t columns, const struct xpwc_fft* f, double* work) {
    for (size_t column = 0; column < columns; column += together, numbers += 2 * together) {
        const size_t count = columns - column < together ? columns - column : together;
        lines* x = (lines*)work;
        for (size_t y = 0; y < f->n; y++) {
            const double* in = numbers + 2 * y * columns;
            x[2 * y] = x[2 * y + 1] = (lines){0};
            for (size_t l = 0; l < count; l++) {
                work[2 * y * together + l] = in[2 * l];
                work[(2 * y + 1) * together + l] = in[2 * l + 1];
            }
        }
        transform(x, f);
        for (size_t y = 0; y < f->n; y++) {
            double* out = numbers + 2 * y * columns;
            for (size_t l = 0; l < count; l++) {
                out[2 * l] = work[2 * y * together + l];
                out[2 * l + 1] = work[(2 * y + 1) * together + l];
            }
        }
    }
}

CLONED void xpwc_magnitudes(float* restrict dst, const float* restrict src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const double re = src[2 * i], im = src[2 * i + 1];
        const int infinite = __builtin_isinf(re) | __builtin_isinf(im); // even if the other is NaN, as in C's cabs
        dst[i] = infinite ? __builtin_inff() : (float)__builtin_sqrt(re * re + im * im);
    }
}
