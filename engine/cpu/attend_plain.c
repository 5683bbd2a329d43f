/* cpu/attend_plain - the definition of attention's inner loops. */
#include "engine/cpu/attend.h"

#include <math.h>

#define LANES ATTEND_LANES

/* Sixteen heads into the lanes: q [heads, dim] to out [dim][16]; absent heads are 0. */
static void turn(const float *q, uint32_t heads, uint32_t dim, float *out) {
    for (uint32_t k = 0; k < dim; k++) {
        for (uint32_t h = 0; h < LANES; h++)
            out[k * LANES + h] = h < heads ? q[(size_t)h * dim + k] : 0.0f;
    }
}

/* out[key][lane] = sum over dims of q[dim][lane] . key[dim], as the canonical dot sums. */
static void key_dots(const float *q, const float *const *keys, uint32_t count, uint32_t dim,
                     float *out) {
    for (uint32_t j = 0; j < count; j++, out += LANES) {
        for (uint32_t i = 0; i < LANES; i++) {
            float acc = 0.0f;
            for (uint32_t begin = 0; begin < dim; begin += 32) {
                float chain[2] = {0.0f, 0.0f};
                for (uint32_t k = begin; k < dim && k < begin + 32; k++)
                    chain[k % 2] = fmaf(q[k * LANES + i], keys[j][k], chain[k % 2]);
                float both = chain[0] + chain[1];
                acc = acc + both;
            }
            out[i] = acc;
        }
    }
}

/* Sums over the keys, ascending, of weight and value; then divided. */
static void values(const attend_task *t, const float *sum) {
    for (uint32_t h = 0; h < t->heads; h++) {
        float *y = t->y + (size_t)h * t->dim;
        for (uint32_t k = 0; k < t->dim; k++) {
            float acc = 0.0f;
            for (uint32_t j = 0; j < t->count; j++)
                acc = fmaf(t->scores[(size_t)j * LANES + h], t->keys[j][k], acc);
            y[k] = acc / sum[h];
        }
    }
}

/* acc[key] = fmaf(w[head], relu(s[key][head]), acc[key]), heads ascending; a NaN stays one. */
static void add_relus(const float *s, const float *w, uint32_t heads, float *acc) {
    for (uint32_t h = 0; h < heads; h++) {
        for (uint32_t j = 0; j < LANES; j++) {
            float score = s[j * LANES + h];
            acc[j] = fmaf(w[h], score <= 0.0f ? 0.0f : score, acc[j]);
        }
    }
}

#define ATTEND_STEPS attend_plain
#include "engine/cpu/attend_impl.def"
