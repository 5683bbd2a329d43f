/* cpu/mhc - hyper-connections: four streams mixed around every sublayer (MODEL 3, mix and hc_post).
 *
 * Idea: all sums over streams run in ascending order by fmaf; the product with fn is a canonical dot.
 * Trap: POST reads all four streams of an element before it writes one. */
#include "engine/base/check.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/norm.h"

void cpu_mix_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                  size_t *shared_bytes) {
    const args_mix *a = l->args;
    (void)d;
    *worker_bytes = DOT_WHOLE_BYTES;
    *shared_bytes = (size_t)l->rows * a->fn.members[0].n * sizeof(float);
}

typedef struct mix_job {
    const cpu_device *d;
    const args_mix *a;
    uint32_t rows;
} mix_job;

#define MIX_ROWS 16u /* of a job */

static void mix_rows(void *context, size_t index, uint32_t worker) {
    const mix_job *j = context;
    const args_mix *a = j->a;
    uint32_t begin = (uint32_t)index * MIX_ROWS;
    uint32_t rows = j->rows - begin < MIX_ROWS ? j->rows - begin : MIX_ROWS;
    const port_linear *fn = &a->fn.members[0];
    float *m = (float *)(void *)j->d->shared + (size_t)begin * fn->n;
    dot_rows r = {port_f32(&a->streams, begin), a->streams.stride[0], rows, m, fn->n};
    dot_whole(j->d, cpu_scratch(j->d, worker), fn, &r);
    const rows_steps *steps = rows_steps_of(j->d->isa);
    for (uint32_t i = 0; i < rows; i++, m += fn->n) {
        float scale = norm_scale(steps, port_f32(&a->streams, begin + i), fn->k, a->rms_eps);
        for (uint32_t k = 0; k < fn->n; k++)
            m[k] *= scale;
        steps->mix(&(rows_mix){
            .m = m,
            .base = a->base.data,
            .scale = a->scale.data,
            .eps = (float)a->hc_eps,
            .iterations = a->iterations,
            .pre = port_f32(&a->pre, begin + i),
            .post = port_f32(&a->post, begin + i),
            .comb = port_f32(&a->comb, begin + i),
        });
    }
}

tf_status cpu_mix(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_mix *a = l->args;
    const port_linear *fn = &a->fn.members[0];
    mix_job job = {d, a, l->rows};
    (void)err;
    /* A row's streams are taken as one vector. */
    TF_ASSERT(fn->k == ROWS_STREAMS * a->streams.stride[1] && fn->n == ROWS_MIX);
    dot_run(d, (l->rows + MIX_ROWS - 1) / MIX_ROWS, (uint64_t)l->rows * fn->k * fn->n, mix_rows,
            &job);
    return TF_OK;
}

static void collapse_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const args_collapse *a = w->args;
    (void)worker;
    w->steps->collapse(port_f32(&a->streams, row), a->streams.stride[1], port_f32(&a->pre, row),
                       a->streams.shape[2], port_f32(&a->y, row));
}

tf_status cpu_collapse(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_collapse *a = l->args;
    rows_work w = {d, rows_steps_of(d->isa), a, collapse_row, l->rows};
    (void)err;
    TF_ASSERT(a->streams.shape[1] == ROWS_STREAMS);
    rows_run(&w, (uint64_t)ROWS_STREAMS * a->streams.shape[2]);
    return TF_OK;
}

static void post_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const args_post *a = w->args;
    (void)worker;
    w->steps->post(port_f32(&a->x, row), port_f32(&a->post, row), port_f32(&a->comb, row),
                   a->streams.shape[2], a->streams.stride[1], port_f32(&a->streams, row));
}

tf_status cpu_post(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_post *a = l->args;
    rows_work w = {d, rows_steps_of(d->isa), a, post_row, l->rows};
    (void)err;
    TF_ASSERT(a->streams.shape[1] == ROWS_STREAMS);
    rows_run(&w, (uint64_t)ROWS_STREAMS * ROWS_STREAMS * a->streams.shape[2]);
    return TF_OK;
}
