#include "engine/cpu/norm.h"

#include "engine/canon/fmath.h"
#include "engine/cpu/cpu.h"

float norm_squares(const float *x, size_t n) {
    float partial[16] = {0};
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
        for (size_t i = 0; i < 16; i++)
            partial[i] = fmaf(x[k + i], x[k + i], partial[i]);
    }
    for (size_t i = 0; k + i < n; i++)
        partial[i] = fmaf(x[k + i], x[k + i], partial[i]);
    return norm_join(partial);
}

float norm_scale(const float *x, size_t n, double eps) {
    return fm_rsqrt(norm_squares(x, n) / (float)n + (float)eps);
}

tf_status cpu_norm(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_norm *a = l->args;
    const float *w = a->w.data;
    (void)d;
    (void)err;
    size_t n = a->x.shape[a->x.dims - 1];
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *x = port_f32(&a->x, i);
        float *y = port_f32(&a->y, i);
        float scale = norm_scale(x, n, a->eps);
        for (size_t k = 0; k < n; k++)
            y[k] = w[k] * (x[k] * scale);
    }
    return TF_OK;
}
