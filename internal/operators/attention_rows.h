// The attention of a tile of queries, in vectors of LANES numbers. attention.c includes this file once for each kind of
// CPU: TARGET allows its instructions, and FUNCTION makes the names differ.
#define VECTOR FUNCTION(vector)
#define INLINE TARGET static inline __attribute__((always_inline))

typedef float VECTOR __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE float FUNCTION(sum)(const VECTOR* v) {
    const quarter* parts = (const quarter*)v;
    quarter sum = parts[0];
    UNROLL for (int k = 1; k < LANES / 4; k++) { sum += parts[k]; }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Sets the scores of all keys from j on, for so many rows and some keys at a time, to the products of queries and keys.
// It returns the first key that is missing.
INLINE size_t FUNCTION(multiply)(const tile* t, const int rows, const int keys, size_t j) {
    for (; j + keys <= t->most; j += keys) {
        const float* key = t->keys + j * t->step;
        VECTOR sums[most_rows][most_vectors] = {0};
        size_t d = 0;
        for (; d + LANES <= t->width; d += LANES) {
            UNROLL for (int k = 0; k < keys; k++) {
                const VECTOR numbers = *(const VECTOR*)(key + k * t->step + d);
                UNROLL for (int r = 0; r < rows; r++) { sums[r][k] += *(const VECTOR*)(t->query[r] + d) * numbers; }
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int k = 0; k < keys; k++) {
                float sum = FUNCTION(sum)(&sums[r][k]);
                for (size_t i = d; i < t->width; i++) { sum += t->query[r][i] * key[k * t->step + i]; }
                t->scores[r][j + k] = sum;
            }
        }
    }
    return j;
}

// Sets the numbers of so many rows from d on, some vectors at a time, to the sum of the values, each times the key's
// share. It returns the first number that is missing. What a row does not see may be no number.
INLINE size_t FUNCTION(mix)(const tile* t, const int rows, const int vectors, size_t d) {
    for (; d + vectors * LANES <= t->width; d += vectors * LANES) {
        const float* value = t->values + d;
        VECTOR sums[most_rows][most_vectors] = {0};
        for (size_t j = 0; j < t->least; j++, value += t->step) {
            UNROLL for (int v = 0; v < vectors; v++) {
                const VECTOR numbers = *(const VECTOR*)(value + v * LANES);
                UNROLL for (int r = 0; r < rows; r++) { sums[r][v] += t->scores[r][j] * numbers; }
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            for (size_t j = t->least; j < t->seen[r]; j++) {
                value = t->values + j * t->step + d;
                UNROLL for (int v = 0; v < vectors; v++) {
                    sums[r][v] += t->scores[r][j] * *(const VECTOR*)(value + v * LANES);
                }
            }
            UNROLL for (int v = 0; v < vectors; v++) { *(VECTOR*)(t->dst[r] + d + v * LANES) = sums[r][v]; }
        }
    }
    return d;
}

// Makes the scores of a row the keys' shares, which have the sum that it returns.
INLINE float FUNCTION(share)(float* scores, const float* mask, float scale, size_t n) {
    float largest[LANES], sums[LANES] = {0};
    for (int k = 0; k < LANES; k++) { largest[k] = -INFINITY; }
    for (size_t j = 0; j < n; j++) { scores[j] *= scale; }
    if (mask != NULL) {
        for (size_t j = 0; j < n; j++) { scores[j] += mask[j]; }
    }
    size_t whole = n - n % LANES;
    for (size_t j = 0; j < whole; j += LANES) {
        for (int k = 0; k < LANES; k++) { largest[k] = MAX(scores[j + k], largest[k]); }
    }
    for (size_t j = whole; j < n; j++) { largest[0] = MAX(scores[j], largest[0]); }
    for (int k = 1; k < LANES; k++) { largest[0] = MAX(largest[k], largest[0]); }
    for (size_t j = 0; j < n; j++) { scores[j] = exponential(scores[j] - largest[0]); }
    for (size_t j = 0; j < whole; j += LANES) {
        for (int k = 0; k < LANES; k++) { sums[k] += scores[j + k]; }
    }
    for (size_t j = whole; j < n; j++) { sums[0] += scores[j]; }
    return FUNCTION(sum)((const VECTOR*)sums);
}

// Computes so many rows with vectors that fit in the registers.
INLINE void FUNCTION(attend_rows)(const tile* t, const int rows, const int vectors) {
    FUNCTION(multiply)(t, rows, 1, FUNCTION(multiply)(t, rows, vectors, 0));
    float sums[most_rows];
    for (int r = 0; r < rows; r++) { sums[r] = FUNCTION(share)(t->scores[r], t->mask[r], t->scale, t->seen[r]); }
    size_t d = FUNCTION(mix)(t, rows, 1, FUNCTION(mix)(t, rows, vectors, 0));
    for (int r = 0; r < rows; r++) {
        for (size_t i = d; i < t->width; i++) {
            float sum = 0;
            for (size_t j = 0; j < t->seen[r]; j++) { sum += t->scores[r][j] * t->values[j * t->step + i]; }
            t->dst[r][i] = sum;
        }
        for (size_t i = 0; i < t->width; i++) { t->dst[r][i] /= sums[r]; }
    }
}

TARGET static void FUNCTION(attend_tile)(const tile* t) {
    switch (t->rows) {
    case 1: FUNCTION(attend_rows)(t, 1, 4); break;
    case 2: FUNCTION(attend_rows)(t, 2, 4); break;
    case 3: FUNCTION(attend_rows)(t, 3, 2); break;
    case 4: FUNCTION(attend_rows)(t, 4, 2); break;
    }
}

#undef INLINE
#undef VECTOR
