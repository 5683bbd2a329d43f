/* cpu/rope - rotary positions of queries and keys (MODEL 3, RoPE).
 *
 * Idea: a row's cosines and sines are made once and used for all its heads; frequencies are kept for as
 * long as the device lives, since a model has two kinds of them. */
#include "engine/base/check.h"
#include "engine/canon/ropetable.h"
#include "engine/cpu/rows.h"

#include <string.h>

static bool same_spec(const rope_spec *a, const rope_spec *b) {
    return a->rope == b->rope && a->theta == b->theta && a->yarn == b->yarn &&
           a->factor == b->factor && a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
           a->original == b->original;
}

static const double *frequencies(cpu_device *d, const rope_spec *spec) {
    for (uint32_t i = 0; i < CPU_ROPES; i++) {
        if (same_spec(&d->ropes[i].spec, spec)) return d->ropes[i].freq;
    }
    cpu_rope_table *oldest = &d->ropes[d->next_rope++ % CPU_ROPES];
    oldest->spec = *spec;
    ropetable_frequencies(spec, oldest->freq);
    return oldest->freq;
}

typedef struct rope_args {
    const args_rope *a;
    const double *freq;
} rope_args;

static void rope_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const rope_args *r = w->args;
    const args_rope *a = r->a;
    float cos_sin[2 * ROPE_PAIRS_MAX];
    uint32_t pairs = (uint32_t)a->rope / 2;
    int64_t position = port_position(&a->where, row);
    (void)worker;
    w->steps->angles(r->freq, pairs, position - position % a->floor, cos_sin);
    float *x = port_f32(&a->x, row) + (a->dim - a->rope);
    for (int64_t h = 0; h < a->heads; h++)
        w->steps->turn(cos_sin, pairs, a->inverse, x + h * a->dim);
}

tf_status cpu_rope(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_rope *a = l->args;
    rope_spec spec = {
        .rope = (uint32_t)a->rope,
        .theta = a->theta,
        .yarn = strcmp(a->table, "yarn") == 0,
        .factor = a->factor,
        .beta_fast = a->beta_fast,
        .beta_slow = a->beta_slow,
        .original = a->original,
    };
    (void)err;
    TF_ASSERT(a->rope <= 2 * ROPE_PAIRS_MAX && a->rope <= a->dim);
    rope_args r = {a, frequencies(d, &spec)};
    rows_work w = {d, rows_steps_of(d->isa), &r, rope_row, l->rows};
    rows_run(&w, (uint64_t)a->heads * (uint64_t)a->rope);
    return TF_OK;
}
