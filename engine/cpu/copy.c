/* cpu/copy - rows that are moved, not computed (MODEL 3.1, 3.3, 6). */
#include "engine/cpu/cpu.h"

#include <string.h>

/* Only rows of this rank's ids are written; the others come from their owners. */
tf_status cpu_embed(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_embed *a = l->args;
    (void)d;
    (void)err;
    for (uint32_t i = 0; i < l->rows; i++) {
        int64_t row = *port_i32(&a->ids, i) - a->first;
        if (row < 0 || row >= a->w.shape[0]) continue;
        size_t at = (size_t)row * a->w.stride[0] * dtype_bytes(a->w.dtype);
        dtype_widen(a->w.dtype, (const char *)a->w.data + at, a->w.shape[1], port_f32(&a->y, i));
    }
    return TF_OK;
}

tf_status cpu_copies(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_copies *a = l->args;
    (void)d;
    (void)err;
    uint32_t streams = a->streams.shape[1];
    for (uint32_t i = 0; i < l->rows; i++) {
        float *to = port_f32(&a->streams, i);
        float *pre = port_f32(&a->pre, i);
        for (uint32_t s = 0; s < streams; s++) {
            memcpy(to + s * a->streams.stride[1], port_f32(&a->x, i),
                   a->streams.shape[2] * sizeof *to);
            pre[s] = s == 0 ? 1.0f : 0.0f;
        }
    }
    return TF_OK;
}

/* The streams are added in ascending order, then scaled by 1 / their number. */
tf_status cpu_tap(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_tap *a = l->args;
    (void)d;
    (void)err;
    uint32_t streams = a->streams.shape[1];
    float share = 1.0f / (float)streams;
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *x = port_f32(&a->streams, i);
        float *y = port_f32(&a->y, i);
        for (uint32_t c = 0; c < a->streams.shape[2]; c++) {
            float sum = x[c];
            for (uint32_t s = 1; s < streams; s++)
                sum += x[s * a->streams.stride[1] + c];
            y[c] = sum * share;
        }
    }
    return TF_OK;
}

tf_status cpu_block_ids(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_block_ids *a = l->args;
    (void)d;
    (void)err;
    int32_t *y = a->y.data;
    for (uint32_t i = 0; i < a->y.shape[0]; i++)
        y[i] = i == 0 ? *port_i32(&a->newest, 0) : (int32_t)a->noise;
    return TF_OK;
}
