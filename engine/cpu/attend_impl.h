/* cpu/attend_impl - what attend_plain.c, attend_avx2.c and attend_avx512.c each compile around their own
 * inner loops.
 *
 * Idea: they define ATTEND_STEPS, the name of what they export, and key_dots, values, add_relus and
 * turn, which attend_plain.c explains; what is here is loops over 16 lanes, which a compiler turns
 * into registers without a choice.
 * Trap: included once a file, by those three alone, after their functions. */
#ifndef TF_ENGINE_CPU_ATTEND_IMPL_H
#define TF_ENGINE_CPU_ATTEND_IMPL_H

#include "engine/canon/fmath.h"
#include "engine/cpu/attend.h"

#ifndef ATTEND_STEPS
#define ATTEND_STEPS attend_nothing
#endif

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

static void attend(const attend_task *t) {
    float sum[LANES];
    key_dots(t->q, t->keys, t->count, t->dim, t->scores);
    for (uint32_t j = 0; j < t->count; j++) {
        float *s = t->scores + (size_t)j * LANES;
        for (uint32_t i = 0; i < LANES; i++)
            s[i] = s[i] * t->scale;
    }
    weigh(t, sum);
    values(t, sum);
}

/* Heads ascending. */
static void index_scores(const index_task *t) {
    float s[LANES * LANES] = {0}; /* [key][head of the group] */
    float acc[LANES] = {0};
    for (uint32_t g = 0; g < t->groups; g++) {
        uint32_t heads = t->heads - g * LANES < LANES ? t->heads - g * LANES : LANES;
        key_dots(t->q + (size_t)g * t->dim * LANES, t->keys, t->count, t->dim, s);
        add_relus(s, t->weights + (size_t)g * LANES, heads, acc);
    }
    for (uint32_t j = 0; j < t->count; j++)
        t->y[j] = acc[j];
}

const attend_steps ATTEND_STEPS = {turn, attend, index_scores};

#endif
