/* cpu/norm - sums of squares, in one order for all who need them.
 *
 * Idea: sixteen partial sums, element k to partial k mod 16, each a chain of fmaf from +0; then
 * halves are added: i and i + 8, i + 4, i + 2, i + 1 (NUMERICS, Everything else). */
#ifndef TF_ENGINE_CPU_NORM_H
#define TF_ENGINE_CPU_NORM_H

#include <stddef.h>
#include <stdint.h>

/* The sum of the sixteen partials, joined as above. */
static inline float norm_join(const float partial[16]) {
    float p[16];
    for (int i = 0; i < 16; i++)
        p[i] = partial[i];
    for (int half = 8; half >= 1; half /= 2) {
        for (int i = 0; i < half; i++)
            p[i] = p[i] + p[i + half];
    }
    return p[0];
}

/* Sum of x^2; x [n]. */
float norm_squares(const float *x, size_t n);
/* 1 / sqrt(mean(x^2) + eps). */
float norm_scale(const float *x, size_t n, double eps);

#endif
