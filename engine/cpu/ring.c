/* cpu/ring - state rows by position: stored, read back, and pairs closed (MODEL 3.2, 5).
 *
 * Idea: a position's row lies at (position div ratio) mod capacity; rows go in in ascending position,
 * so of those that meet in one place the newest stays.
 * Trap: a pair's first half may be of this step or of the one before. */
#include "engine/canon/fmath.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/where.h"

#include <string.h>

tf_status cpu_store(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_store *a = l->args;
    (void)d;
    (void)err;
    for (uint32_t i = 0; i < l->rows; i++) {
        int64_t p = port_position(&a->where, i);
        if ((p + 1) % a->ratio != 0) continue;
        uint64_t index = (uint64_t)(p / a->ratio % a->capacity);
        memcpy(port_state_row(&a->y, port_slot(&a->where, i), index), port_f32(&a->x, i),
               a->y.row * sizeof(float));
    }
    return TF_OK;
}

tf_status cpu_fetch(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_fetch *a = l->args;
    (void)d;
    (void)err;
    for (uint32_t i = 0; i < l->rows; i++) {
        uint64_t index = (uint64_t)(port_position(&a->where, i) % a->capacity);
        memcpy(port_f32(&a->y, i), port_state_row(&a->x, port_slot(&a->where, i), index),
               a->x.row * sizeof(float));
    }
    return TF_OK;
}

/* Key and gate of a position. */
typedef struct half {
    const float *key, *gate;
} half;

static half half_before(const args_compress *a, uint32_t row) {
    uint32_t dim = a->y.shape[1];
    if (row > where_first(&a->where, row))
        return (half){port_f32(&a->keys, row - 1), port_f32(&a->gates, row - 1)};
    int64_t p = port_position(&a->where, row) - 1;
    const float *kept =
        port_state_row(&a->ring, port_slot(&a->where, row), (uint64_t)(p % a->capacity));
    return (half){kept, kept + dim};
}

/* Softmax over the two gates of each dim; the older half first. */
static void close_pair(half x, half y, uint32_t dim, float *out) {
    for (uint32_t k = 0; k < dim; k++) {
        float most = x.gate[k] > y.gate[k] ? x.gate[k] : y.gate[k];
        float e = fm_exp(x.gate[k] - most);
        float f = fm_exp(y.gate[k] - most);
        float sum = e + f;
        out[k] = fmaf(f / sum, y.key[k], e / sum * x.key[k]);
    }
}

tf_status cpu_compress(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_compress *a = l->args;
    uint32_t dim = a->y.shape[1];
    (void)d;
    (void)err;
    for (uint32_t i = 0; i < l->rows; i++) {
        float *y = port_f32(&a->y, i);
        half now = {port_f32(&a->keys, i), port_f32(&a->gates, i)};
        if (port_position(&a->where, i) % 2 == 0) {
            memset(y, 0, dim * sizeof *y);
        } else {
            close_pair(half_before(a, i), now, dim, y);
        }
    }
    for (uint32_t i = 0; i < l->rows; i++) {
        uint64_t index = (uint64_t)(port_position(&a->where, i) % a->capacity);
        float *kept = port_state_row(&a->ring, port_slot(&a->where, i), index);
        memcpy(kept, port_f32(&a->keys, i), dim * sizeof *kept);
        memcpy(kept + dim, port_f32(&a->gates, i), dim * sizeof *kept);
    }
    return TF_OK;
}
