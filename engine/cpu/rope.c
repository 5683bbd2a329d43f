/* cpu/rope - rotary positions of queries and keys (MODEL 3, RoPE).
 *
 * Idea: a row's cosines and sines are made once and used for all its heads; frequencies once a
 * launch. */
#include "engine/canon/ropetable.h"
#include "engine/cpu/cpu.h"

#include <math.h>
#include <string.h>

typedef struct rope_table {
    double freq[ROPE_PAIRS_MAX];
    float row[2 * ROPE_PAIRS_MAX];
} rope_table;

static void turn(float *x, uint32_t pairs, const float *cos_sin, bool inverse) {
    for (uint32_t i = 0; i < pairs; i++) {
        float c = cos_sin[2 * i];
        float s = inverse ? -cos_sin[2 * i + 1] : cos_sin[2 * i + 1];
        float e = x[2 * i];
        float o = x[2 * i + 1];
        x[2 * i] = fmaf(e, c, -(o * s));
        x[2 * i + 1] = fmaf(e, s, o * c);
    }
}

tf_status cpu_rope(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_rope *a = l->args;
    rope_table table;
    uint32_t pairs = (uint32_t)a->rope / 2;
    rope_spec spec = {
        .rope = (uint32_t)a->rope,
        .theta = a->theta,
        .yarn = strcmp(a->table, "yarn") == 0,
        .factor = a->factor,
        .beta_fast = a->beta_fast,
        .beta_slow = a->beta_slow,
        .original = a->original,
    };
    (void)d;
    (void)err;
    ropetable_frequencies(&spec, table.freq);
    for (uint32_t i = 0; i < l->rows; i++) {
        int64_t position = port_position(&a->where, i);
        ropetable_row(table.freq, pairs, position - position % a->floor, table.row);
        float *x = port_f32(&a->x, i) + (a->dim - a->rope);
        for (int64_t h = 0; h < a->heads; h++)
            turn(x + h * a->dim, pairs, table.row, a->inverse);
    }
    return TF_OK;
}
