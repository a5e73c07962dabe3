#include "loops.h"
#include "vectors.h"

#include <math.h>

// A tile is queries with the same keys, which are read once for all of them. most_vectors is how many vectors of sums
// each has at a time.
enum { most_rows = 4, most_vectors = 4 };

typedef struct {
    int rows;
    float* dst[most_rows];
    float* scores[most_rows];
    const float* query[most_rows];
    const float* mask[most_rows]; // null without a mask
    size_t seen[most_rows];       // how many keys a query sees
    size_t least, most;           // of these
    const float* keys;
    const float* values;
    size_t width, step; // of keys and of values
    float scale;
} tile;

// The compiler keeps the sums in registers only if it unrolls the loops over them.
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 4")
#else
#define UNROLL _Pragma("unroll")
#endif

// A number that is none makes the result none.
#define MAX(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))

typedef float quarter __attribute__((vector_size(16), aligned(4), may_alias));

// Returns e to the power of x, which is 0 or less, with a relative error of 1e-7: as 2^n e^r, with Cephes' polynomial
// for e^r. A library's function is no vector instruction.
static inline __attribute__((always_inline)) float exponential(float x) {
    union {
        float number;
        uint32_t bits;
    } shifted = {x * 1.44269504f + 0x1.8p23f}, power; // n is in the lowest bits
    const float n = shifted.number - 0x1.8p23f;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    power.number = p * r * r + r + 1;
    power.bits += shifted.bits << 23;
    return x < -87 ? 0 : x == x ? power.number : x;
}

#define FUNCTION(NAME) NAME##_any
#define TARGET
#define LANES 4
#include "attention_rows.h"
#undef FUNCTION
#undef TARGET
#undef LANES

// Other systems do not align a stack as wide vectors need it.
#if defined(__x86_64__) && defined(__linux__)
#define FUNCTION(NAME) NAME##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#include "attention_rows.h"
#define WIDE (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define ATTEND(t) (WIDE ? attend_tile_avx2(t) : attend_tile_any(t))
#else
#define ATTEND(t) attend_tile_any(t)
#endif

void xpwc_attend(float* dst, float* scores, const float* query, const float* keys, const float* values,
                 const float* mask, const xpwc_attention* a) {
    const size_t sharing = a->heads / a->groups, rows = a->queries * sharing;
    const size_t scored = a->seen + (a->queries - 1) * a->more; // keys at most
    tile t = {.width = a->width, .step = a->groups * a->width, .scale = a->scale};
    for (size_t group = 0; group < a->groups; group++) {
        t.keys = keys + group * a->width;
        t.values = values + group * a->width;
        for (size_t row = 0; row < rows; row += t.rows) {
            t.rows = rows - row < most_rows ? (int)(rows - row) : most_rows;
            for (int r = 0; r < t.rows; r++) {
                const size_t i = (row + r) / sharing, head = group * sharing + (row + r) % sharing;
                const size_t offset = (i * a->heads + head) * a->width;
                t.dst[r] = dst + offset;
                t.query[r] = query + offset;
                t.scores[r] = scores + r * scored;
                t.mask[r] = mask == NULL ? NULL : mask + i * a->capacity;
                t.seen[r] = a->seen + i * a->more;
            }
            t.least = t.seen[0];
            t.most = t.seen[t.rows - 1];
            ATTEND(&t);
        }
    }
}
