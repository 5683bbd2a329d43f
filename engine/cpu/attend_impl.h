/* cpu/attend_impl - the source that attend_plain.c, attend_avx2.c and attend_avx512.c each compile;
 * they define ATTEND_STEPS, the name of what they export.
 *
 * Idea: loops over 16 lanes of explicit fmaf, which a compiler turns into registers without a choice.
 * Trap: included once a file, by those three alone. */
#ifndef TF_ENGINE_CPU_ATTEND_IMPL_H
#define TF_ENGINE_CPU_ATTEND_IMPL_H

#include "engine/canon/fmath.h"
#include "engine/cpu/attend.h"

#ifndef ATTEND_STEPS
#define ATTEND_STEPS attend_nothing
#endif

#define LANES ATTEND_LANES
#define SUB   32u
#define DIMS  64u /* of a value's block */

/* out[lane] = sum over dims of q[dim][lane] . key[dim]. */
static inline void dot_lanes(const float *restrict q, const float *restrict key, uint32_t dim,
                             float *restrict out) {
    float acc[LANES] = {0};
    for (uint32_t begin = 0; begin < dim; begin += SUB) {
        uint32_t end = dim - begin < SUB ? dim : begin + SUB;
        float even[LANES] = {0};
        float odd[LANES] = {0};
        uint32_t k = begin;
        for (; k + 1 < end; k += 2) {
            for (uint32_t i = 0; i < LANES; i++)
                even[i] = fmaf(q[k * LANES + i], key[k], even[i]);
            for (uint32_t i = 0; i < LANES; i++)
                odd[i] = fmaf(q[(k + 1) * LANES + i], key[k + 1], odd[i]);
        }
        for (uint32_t i = 0; k < end && i < LANES; i++)
            even[i] = fmaf(q[k * LANES + i], key[k], even[i]);
        for (uint32_t i = 0; i < LANES; i++)
            acc[i] = acc[i] + (even[i] + odd[i]);
    }
    for (uint32_t i = 0; i < LANES; i++)
        out[i] = acc[i];
}

/* Scores become e^(s - m); returns their sums with the sink's, in sum[lane]. */
static void weigh(const attend_task *t, float *restrict sum) {
    float most[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        most[i] = t->sink[i];
    for (uint32_t j = 0; j < t->count; j++) {
        float *s = t->scores + (size_t)j * LANES;
        for (uint32_t i = 0; i < LANES; i++)
            most[i] = s[i] > most[i] ? s[i] : most[i];
    }
    for (uint32_t i = 0; i < LANES; i++)
        sum[i] = 0.0f;
    for (uint32_t j = 0; j < t->count; j++) {
        float *s = t->scores + (size_t)j * LANES;
        for (uint32_t i = 0; i < LANES; i++) {
            s[i] = fm_exp(s[i] - most[i]);
            sum[i] = sum[i] + s[i];
        }
    }
    for (uint32_t i = 0; i < LANES; i++)
        sum[i] = sum[i] + fm_exp(t->sink[i] - most[i]);
}

/* Dims [begin, begin + n) of one head's output. */
static inline void value_block(const attend_task *t, uint32_t head, uint32_t begin, uint32_t n,
                               float sum) {
    float acc[DIMS] = {0};
    for (uint32_t j = 0; j < t->count; j++) {
        float w = t->scores[(size_t)j * LANES + head];
        const float *v = t->keys[j] + begin;
        for (uint32_t i = 0; i < n; i++)
            acc[i] = fmaf(w, v[i], acc[i]);
    }
    float *y = t->y + (size_t)head * t->dim + begin;
    for (uint32_t i = 0; i < n; i++)
        y[i] = acc[i] / sum;
}

static void attend(const attend_task *t) {
    float sum[LANES];
    for (uint32_t j = 0; j < t->count; j++) {
        float *s = t->scores + (size_t)j * LANES;
        dot_lanes(t->q, t->keys[j], t->dim, s);
        for (uint32_t i = 0; i < LANES; i++)
            s[i] = s[i] * t->scale;
    }
    weigh(t, sum);
    for (uint32_t h = 0; h < t->heads; h++) {
        uint32_t begin = 0;
        for (; begin + DIMS <= t->dim; begin += DIMS)
            value_block(t, h, begin, DIMS, sum[h]);
        if (begin < t->dim) value_block(t, h, begin, t->dim - begin, sum[h]);
    }
}

/* Heads ascending: y = fmaf(w, relu(score), y); here the keys are the lanes. */
static void index_scores(const index_task *t) {
    float part[LANES][LANES]; /* [head of the group][key] */
    float acc[LANES] = {0};
    for (uint32_t g = 0; g < t->groups; g++) {
        const float *q = t->q + (size_t)g * t->dim * LANES;
        for (uint32_t j = 0; j < LANES; j++) {
            float s[LANES] = {0};
            if (j < t->count) dot_lanes(q, t->keys[j], t->dim, s);
            for (uint32_t i = 0; i < LANES; i++)
                part[i][j] = s[i] > 0.0f ? s[i] : (s[i] != s[i] ? s[i] : 0.0f);
        }
        uint32_t heads = t->heads - g * LANES < LANES ? t->heads - g * LANES : LANES;
        for (uint32_t h = 0; h < heads; h++) {
            float w = t->weights[g * LANES + h];
            for (uint32_t j = 0; j < LANES; j++)
                acc[j] = fmaf(w, part[h][j], acc[j]);
        }
    }
    for (uint32_t j = 0; j < t->count; j++)
        t->y[j] = acc[j];
}

const attend_steps ATTEND_STEPS = {attend, index_scores};

#endif
