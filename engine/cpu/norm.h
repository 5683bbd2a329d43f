/* cpu/norm - the scale of a norm, the same for all who need one (MODEL 3, rms).
 *
 * Idea: the mean of squares is a sum of cpu/rows: sixteen partial sums, element k to partial k mod 16,
 * each a chain of fmaf from +0; then halves are added: i and i + 8, i + 4, i + 2, i + 1.
 * Trap: eps is 1e-20 in every norm of the model, and is lost in anything narrower than f32. */
#ifndef TF_ENGINE_CPU_NORM_H
#define TF_ENGINE_CPU_NORM_H

#include "engine/cpu/rows.h"

/* 1 / sqrt(mean(x^2) + eps); x [n]. */
float norm_scale(const rows_steps *steps, const float *x, size_t n, double eps);

#endif
