/* cpu/attend - attention of one row over its keys, and index scores (MODEL 3, Attention 4 and 5).
 *
 * Idea: sixteen heads in the lanes: one key row serves them all.  A score sums its dims as the
 * canonical dot does, even and odd chains of 32; weights and their sum follow the keys in order; values
 * have dims in the lanes and follow the keys too.
 * Idea: attend_plain.c is the definition; the others hold the same sums in wider registers, more keys
 * and heads at once: no sum crosses lanes, so none differs.
 * Trap: the sink takes part in the maximum and in the sum, and has no value. */
#ifndef TF_ENGINE_CPU_ATTEND_H
#define TF_ENGINE_CPU_ATTEND_H

#include "engine/cpu/cpu.h"

#define ATTEND_LANES 16u

typedef struct attend_task {
    const float *const *keys; /* [count] rows [dim]; values too */
    uint32_t count, dim;
    float scale;
    const float *q;    /* [dim][16]; absent heads are 0 */
    float *scores;     /* [count][16] scratch */
    const float *sink; /* [16] */
    uint32_t heads;    /* 1 to 16 that are stored */
    float *y;          /* [heads][dim] */
} attend_task;

/* Index scores of up to 16 keys. */
typedef struct index_task {
    const float *const *keys; /* [count] */
    uint32_t count, dim, groups;
    const float *q;       /* [groups][dim][16] heads in the lanes */
    const float *weights; /* [groups * 16], scale folded in; absent heads are 0 */
    uint32_t heads;
    float *y; /* [count] */
} index_task;

typedef struct attend_steps {
    /* Heads into the lanes: q [heads, dim] to out [dim][16]; absent heads are 0. */
    void (*turn)(const float *q, uint32_t heads, uint32_t dim, float *out);
    void (*attend)(const attend_task *t);
    void (*index)(const index_task *t);
} attend_steps;

extern const attend_steps attend_plain;
#if defined(__x86_64__)
extern const attend_steps attend_avx2;
extern const attend_steps attend_avx512;
#endif

#endif
