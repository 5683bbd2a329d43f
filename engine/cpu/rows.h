/* cpu/rows - what is done to a row by itself: norms, streams, rotation, gates, draws.
 *
 * Idea: one source, rows_impl.h, is compiled for every instruction set.  Lanes run over elements; where
 * a row is summed, it is in sixteen partials, element k to partial k mod 16, each a chain of fmaf
 * from +0; then halves are added: i and i + 8, i + 4, i + 2, i + 1 (NUMERICS, Everything else).
 * Trap: y may be x and streams lie where they are read: sixteen elements are read before one is
 * written. */
#ifndef TF_ENGINE_CPU_ROWS_H
#define TF_ENGINE_CPU_ROWS_H

#include "engine/cpu/cpu.h"

#define ROWS_STREAMS 4u
#define ROWS_MIX     (ROWS_STREAMS * (2 + ROWS_STREAMS)) /* pre, post, comb */

/* One row's mixing (MODEL 3, mix). */
typedef struct rows_mix {
    const float *m;     /* [24] products, scaled by the row's norm */
    const float *base;  /* [24] */
    const float *scale; /* [3] */
    float eps;
    int64_t iterations;
    float *pre, *post; /* [4] */
    float *comb;       /* [4, 4] */
} rows_mix;

/* One row's draws: y[i] = logits[i] + heat . noise of (key, first + i). */
typedef struct rows_draw {
    const float *logits; /* [n] */
    uint32_t n;
    float heat;
    uint64_t key, first;
    float *y; /* [n] */
} rows_draw;

typedef struct rows_steps {
    /* Sum of x^2; x [n]. */
    float (*squares)(const float *x, size_t n);
    /* y = w . (x . scale); all [n]. */
    void (*scale)(const float *x, const float *w, float scale, size_t n, float *y);
    /* Cosine and sine of every pair at a position: cos_sin [pairs, 2]. */
    void (*angles)(const double *freq, uint32_t pairs, int64_t position, float *cos_sin);
    /* x [pairs, 2] turned, or turned back. */
    void (*turn)(const float *cos_sin, uint32_t pairs, bool inverse, float *x);
    void (*mix)(const rows_mix *m);
    /* y = pre . X, streams ascending: a product, then fmaf; X [4][n] `stride` apart. */
    void (*collapse)(const float *x, size_t stride, const float *pre, size_t n, float *y);
    /* X[j] = post[j] . b, then fmaf(comb[i][j], X[i], ...) for i ascending. */
    void (*post)(const float *b, const float *post, const float *comb, size_t n, size_t stride,
                 float *x);
    /* Sum of (x . qw) . (kw . key); all [n]. */
    float (*gate)(const float *x, const float *key, const float *qw, const float *kw, size_t n);
    /* x = fmaf(a, b, x). */
    void (*add)(float a, const float *b, size_t n, float *x);
    /* x = sqrt(softplus(x)). */
    void (*affinity)(float *x, size_t n);
    void (*draw)(const rows_draw *t);
    /* Is one of x [n] above `best`, or a NaN? */
    bool (*beats)(const float *x, size_t n, float best);
} rows_steps;

extern const rows_steps rows_plain;
#if defined(__x86_64__)
extern const rows_steps rows_avx2;
extern const rows_steps rows_avx512;
#endif
const rows_steps *rows_steps_of(cpu_isa isa);

/* A launch whose rows do not meet. */
typedef struct rows_work {
    const cpu_device *d;
    const rows_steps *steps;
    const void *args;
    void (*one)(const struct rows_work *w, uint32_t row, uint32_t worker);
    uint32_t rows;
} rows_work;

/* Does every row; `elements`: that one touches, so that small launches are not spread over threads. */
void rows_run(rows_work *w, uint64_t elements);

/* A number that looks like any other, for every number: the finalizer of a counter-based generator. */
static inline uint64_t rows_mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

#endif
