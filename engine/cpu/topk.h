/* cpu/topk - the best of many: higher value first, lower index on a tie (NUMERICS).
 *
 * Idea: floats as integers of the same order; the k-th largest is found byte by byte from the top, so
 * the cost does not depend on the values; what is kept comes out in ascending order.
 * Trap: -0 and +0 are one value; a NaN has no place and is refused. */
#ifndef TF_ENGINE_CPU_TOPK_H
#define TF_ENGINE_CPU_TOPK_H

#include "engine/port/args.h"

#include <stdbool.h>
#include <stdint.h>

/* An integer that orders as the float does. */
uint32_t topk_key(float value);
bool topk_is_nan(float value);
/* Marks the best k of keys [n]: fills out[k] with their indexes ascending; returns how many, the
 * smaller of k and n. */
uint32_t topk_choose(const uint32_t *keys, uint32_t n, uint32_t k, int32_t *out);

/* not-a-number, with the call, the row and where in it the NaN stands. */
tf_status topk_refuse_nan(const port_launch *l, uint32_t row, uint32_t index, tf_error *err);

#endif
