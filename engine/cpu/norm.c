#include "engine/cpu/norm.h"

#include "engine/canon/fmath.h"

float norm_scale(const rows_steps *steps, const float *x, size_t n, double eps) {
    return fm_rsqrt(steps->squares(x, n) / (float)n + (float)eps);
}

static void norm_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const args_norm *a = w->args;
    const float *x = port_f32(&a->x, row);
    size_t n = a->x.shape[a->x.dims - 1];
    (void)worker;
    w->steps->scale(x, a->w.data, norm_scale(w->steps, x, n, a->eps), n, port_f32(&a->y, row));
}

tf_status cpu_norm(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_norm *a = l->args;
    rows_work w = {d, rows_steps_of(d->isa), a, norm_row, l->rows};
    (void)err;
    rows_run(&w, a->x.shape[a->x.dims - 1]);
    return TF_OK;
}
