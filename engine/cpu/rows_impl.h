/* cpu/rows_impl - the source that rows_plain.c, rows_avx2.c and rows_avx512.c each compile; they define
 * ROWS_STEPS, the name of what they export.
 *
 * Idea: pieces of sixteen independent lanes, which a compiler turns into registers without a choice.
 * Trap: included once a file, by those three alone. */
#ifndef TF_ENGINE_CPU_ROWS_IMPL_H
#define TF_ENGINE_CPU_ROWS_IMPL_H

#include "engine/canon/fmath.h"
#include "engine/canon/ropetable.h"
#include "engine/cpu/rows.h"

#ifndef ROWS_STEPS
#define ROWS_STEPS rows_nothing
#endif

#define LANES       16u
#define S           ROWS_STREAMS
#define ROWS_INLINE static inline __attribute__((always_inline))

/* Calls piece(at, count) for sixteen elements at a time, and once for the rest. */
#define IN_PIECES(n, at, piece)                  \
    do {                                         \
        size_t at = 0;                           \
        for (; at + LANES <= (n); at += LANES) { \
            const size_t count = LANES;          \
            piece;                               \
        }                                        \
        if (at < (n)) {                          \
            const size_t count = (n)-at;         \
            piece;                               \
        }                                        \
    } while (0)

/* ---- sums ---- */

ROWS_INLINE float join(float p[LANES]) {
    for (size_t half = LANES / 2; half >= 1; half /= 2) {
        for (size_t i = 0; i < half; i++)
            p[i] = p[i] + p[i + half];
    }
    return p[0];
}

ROWS_INLINE void add_squares(const float *x, size_t count, float p[LANES]) {
    for (size_t i = 0; i < count; i++)
        p[i] = fmaf(x[i], x[i], p[i]);
}

static float squares(const float *x, size_t n) {
    float p[LANES] = {0};
    IN_PIECES(n, k, add_squares(x + k, count, p));
    return join(p);
}

ROWS_INLINE void add_gate(const float *x, const float *key, const float *qw, const float *kw,
                          size_t count, float p[LANES]) {
    for (size_t i = 0; i < count; i++)
        p[i] = fmaf(x[i] * qw[i], kw[i] * key[i], p[i]);
}

static float gate(const float *x, const float *key, const float *qw, const float *kw, size_t n) {
    float p[LANES] = {0};
    IN_PIECES(n, k, add_gate(x + k, key + k, qw + k, kw + k, count, p));
    return join(p);
}

/* ---- element by element ---- */

ROWS_INLINE void scale_piece(const float *x, const float *w, float scale, size_t count, float *y) {
    float t[LANES];
    for (size_t i = 0; i < count; i++)
        t[i] = w[i] * (x[i] * scale);
    for (size_t i = 0; i < count; i++)
        y[i] = t[i];
}

static void scale(const float *x, const float *w, float by, size_t n, float *y) {
    IN_PIECES(n, k, scale_piece(x + k, w + k, by, count, y + k));
}

ROWS_INLINE void add_piece(float a, const float *b, size_t count, float *x) {
    float t[LANES];
    for (size_t i = 0; i < count; i++)
        t[i] = fmaf(a, b[i], x[i]);
    for (size_t i = 0; i < count; i++)
        x[i] = t[i];
}

static void add(float a, const float *b, size_t n, float *x) {
    IN_PIECES(n, k, add_piece(a, b + k, count, x + k));
}

/* fm_softplus in steps: a loop over all of it is one that compilers make branches of. */
ROWS_INLINE void affinity_piece(float *x, size_t count) {
    float t[LANES];
    for (size_t i = 0; i < count; i++)
        t[i] = fm_exp(x[i] < 0.0f ? x[i] : -x[i]);
    for (size_t i = 0; i < count; i++)
        t[i] = fm_log1p(t[i]);
    for (size_t i = 0; i < count; i++)
        x[i] = sqrtf((x[i] > 0.0f ? x[i] : 0.0f) + t[i]);
}

static void affinity(float *x, size_t n) {
    IN_PIECES(n, k, affinity_piece(x + k, count));
}

/* ---- rotation ---- */

ROWS_INLINE void angles_piece(const double *freq, size_t count, double position, float *cos_sin) {
    float c[LANES];
    float s[LANES];
    for (size_t i = 0; i < count; i++)
        ropetable_angle(freq[i], position, &c[i], &s[i]);
    for (size_t i = 0; i < count; i++) {
        cos_sin[2 * i] = c[i];
        cos_sin[2 * i + 1] = s[i];
    }
}

static void angles(const double *freq, uint32_t pairs, int64_t position, float *cos_sin) {
    IN_PIECES(pairs, i, angles_piece(freq + i, count, (double)position, cos_sin + 2 * i));
}

ROWS_INLINE void turn_piece(const float *cos_sin, size_t count, bool inverse, float *x) {
    float e[LANES];
    float o[LANES];
    for (size_t i = 0; i < count; i++) {
        float c = cos_sin[2 * i];
        float s = inverse ? -cos_sin[2 * i + 1] : cos_sin[2 * i + 1];
        e[i] = fmaf(x[2 * i], c, -(x[2 * i + 1] * s));
        o[i] = fmaf(x[2 * i], s, x[2 * i + 1] * c);
    }
    for (size_t i = 0; i < count; i++) {
        x[2 * i] = e[i];
        x[2 * i + 1] = o[i];
    }
}

static void turn(const float *cos_sin, uint32_t pairs, bool inverse, float *x) {
    IN_PIECES(pairs, i, turn_piece(cos_sin + 2 * i, count, inverse, x + 2 * i));
}

/* ---- streams ---- */

ROWS_INLINE void collapse_piece(const float *x, size_t stride, const float *pre, size_t count,
                                float *y) {
    float t[LANES];
    for (size_t i = 0; i < count; i++) {
        float sum = pre[0] * x[i];
        sum = fmaf(pre[1], x[stride + i], sum);
        sum = fmaf(pre[2], x[2 * stride + i], sum);
        t[i] = fmaf(pre[3], x[3 * stride + i], sum);
    }
    for (size_t i = 0; i < count; i++)
        y[i] = t[i];
}

static void collapse(const float *x, size_t stride, const float *pre, size_t n, float *y) {
    IN_PIECES(n, k, collapse_piece(x + k, stride, pre, count, y + k));
}

/* by [S]: row j of comb's transpose. */
ROWS_INLINE float post_one(float post, float b, const float *by, const float *x) {
    float sum = post * b;
    sum = fmaf(by[0], x[0], sum);
    sum = fmaf(by[1], x[1], sum);
    sum = fmaf(by[2], x[2], sum);
    return fmaf(by[3], x[3], sum);
}

ROWS_INLINE void post_piece(const float *b, const float *post, float by[S][S], size_t count,
                            size_t stride, float *x) {
    float t[S][LANES];
    for (size_t i = 0; i < count; i++) {
        float in[S] = {x[i], x[stride + i], x[2 * stride + i], x[3 * stride + i]};
        t[0][i] = post_one(post[0], b[i], by[0], in);
        t[1][i] = post_one(post[1], b[i], by[1], in);
        t[2][i] = post_one(post[2], b[i], by[2], in);
        t[3][i] = post_one(post[3], b[i], by[3], in);
    }
    for (size_t j = 0; j < S; j++) {
        for (size_t i = 0; i < count; i++)
            x[j * stride + i] = t[j][i];
    }
}

static void post(const float *b, const float *post, const float *comb, size_t n, size_t stride,
                 float *x) {
    float by[S][S];
    for (size_t i = 0; i < S * S; i++)
        by[i % S][i / S] = comb[i];
    IN_PIECES(n, k, post_piece(b + k, post, by, count, stride, x + k));
}

/* ---- mixing ---- */

ROWS_INLINE void divide_rows(float c[S][S], float eps) {
    for (size_t i = 0; i < S; i++) {
        float sum = ((c[i][0] + c[i][1]) + c[i][2]) + c[i][3] + eps;
        for (size_t j = 0; j < S; j++)
            c[i][j] = c[i][j] / sum;
    }
}

ROWS_INLINE void divide_columns(float c[S][S], float eps) {
    float sum[S];
    for (size_t j = 0; j < S; j++)
        sum[j] = ((c[0][j] + c[1][j]) + c[2][j]) + c[3][j] + eps;
    for (size_t i = 0; i < S; i++) {
        for (size_t j = 0; j < S; j++)
            c[i][j] = c[i][j] / sum[j];
    }
}

ROWS_INLINE void softmax_rows(float c[S][S], float eps) {
    float e[S][S];
    for (size_t i = 0; i < S; i++) {
        float most = c[i][0];
        for (size_t j = 1; j < S; j++)
            most = c[i][j] > most ? c[i][j] : most;
        for (size_t j = 0; j < S; j++)
            e[i][j] = c[i][j] - most;
    }
    for (size_t i = 0; i < S * S; i++)
        e[i / S][i % S] = fm_exp(e[i / S][i % S]);
    for (size_t i = 0; i < S; i++) {
        float sum = ((e[i][0] + e[i][1]) + e[i][2]) + e[i][3];
        for (size_t j = 0; j < S; j++)
            c[i][j] = e[i][j] / sum + eps;
    }
}

static void mix(const rows_mix *t) {
    float v[ROWS_MIX];
    float c[S][S];
    for (size_t i = 0; i < ROWS_MIX; i++)
        v[i] = fmaf(t->m[i], t->scale[i < S ? 0 : i < 2 * S ? 1 : 2], t->base[i]);
    for (size_t i = 0; i < S; i++) {
        t->pre[i] = fm_sigmoid(v[i]) + t->eps;
        t->post[i] = 2.0f * fm_sigmoid(v[S + i]);
        for (size_t j = 0; j < S; j++)
            c[i][j] = v[2 * S + i * S + j];
    }
    softmax_rows(c, t->eps);
    divide_columns(c, t->eps);
    for (int64_t k = 1; k < t->iterations; k++) {
        divide_rows(c, t->eps);
        divide_columns(c, t->eps);
    }
    for (size_t i = 0; i < S * S; i++)
        t->comb[i] = c[i / S][i % S];
}

/* ---- draws ---- */

/* The noise is -ln(-ln(1 - v)), v of 31 bits in (0, 1): near 0 v keeps all its digits, and there the
 * noise is large.  In steps, as above. */
ROWS_INLINE void draw_piece(const rows_draw *t, size_t at, size_t count) {
    int32_t bits[LANES];
    float e[LANES];
    for (size_t i = 0; i < count; i++) {
        uint64_t id = t->first + at + i;
        bits[i] = (int32_t)(rows_mixed(t->key + (id + 1) * 0x9e3779b97f4a7c15ull) >> 33);
    }
    for (size_t i = 0; i < count; i++) {
        float v = ((float)bits[i] + 0.5f) * 0x1p-31f;
        v = v < 0x1.fffffep-1f ? v : 0x1.fffffep-1f;
        e[i] = v / (1.0f - v); /* 1 + e = 1 / (1 - v) */
    }
    for (size_t i = 0; i < count; i++)
        e[i] = fm_log1p(e[i]);
    for (size_t i = 0; i < count; i++)
        e[i] = fmaf(t->heat, -fm_log(e[i]), t->logits[at + i]);
    for (size_t i = 0; i < count; i++)
        t->y[at + i] = e[i];
}

static void draw(const rows_draw *t) {
    IN_PIECES(t->n, k, draw_piece(t, k, count));
}

ROWS_INLINE void beats_piece(const float *x, size_t count, float best, uint32_t any[LANES]) {
    for (size_t i = 0; i < count; i++)
        any[i] = x[i] <= best ? any[i] : 1;
}

static bool beats(const float *x, size_t n, float best) {
    uint32_t any[LANES] = {0};
    uint32_t all = 0;
    IN_PIECES(n, k, beats_piece(x + k, count, best, any));
    for (size_t i = 0; i < LANES; i++)
        all |= any[i];
    return all != 0;
}

const rows_steps ROWS_STEPS = {squares, scale, angles, turn,     mix,  collapse,
                               post,    gate,  add,    affinity, draw, beats};

#endif
