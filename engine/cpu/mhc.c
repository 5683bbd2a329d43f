/* cpu/mhc - hyper-connections: four streams mixed around every sublayer (MODEL 3, mix and hc_post).
 *
 * Idea: all sums over streams run in ascending order by fmaf; the product with fn is a canonical dot.
 * Trap: POST reads all four streams of an element before it writes one. */
#include "engine/canon/fmath.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/norm.h"

#define STREAMS 4u

/* Rows divided by their sums + eps, or columns. */
static void balance(float c[STREAMS][STREAMS], bool rows, float eps) {
    for (uint32_t i = 0; i < STREAMS; i++) {
        float sum = 0.0f;
        for (uint32_t j = 0; j < STREAMS; j++)
            sum += rows ? c[i][j] : c[j][i];
        sum += eps;
        for (uint32_t j = 0; j < STREAMS; j++) {
            float *at = rows ? &c[i][j] : &c[j][i];
            *at = *at / sum;
        }
    }
}

static void softmax_rows(float c[STREAMS][STREAMS], float eps) {
    for (uint32_t i = 0; i < STREAMS; i++) {
        float most = c[i][0];
        float sum = 0.0f;
        for (uint32_t j = 1; j < STREAMS; j++)
            most = c[i][j] > most ? c[i][j] : most;
        for (uint32_t j = 0; j < STREAMS; j++) {
            c[i][j] = fm_exp(c[i][j] - most);
            sum += c[i][j];
        }
        for (uint32_t j = 0; j < STREAMS; j++)
            c[i][j] = c[i][j] / sum + eps;
    }
}

/* m [24]: the products, scaled by the row's norm already. */
static void mix_row(const args_mix *a, const float *m, uint32_t row) {
    const float *base = a->base.data;
    const float *scale = a->scale.data;
    float *pre = port_f32(&a->pre, row);
    float *post = port_f32(&a->post, row);
    float *comb = port_f32(&a->comb, row);
    float eps = (float)a->hc_eps;
    float c[STREAMS][STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++) {
        pre[i] = fm_sigmoid(fmaf(m[i], scale[0], base[i])) + eps;
        post[i] = 2.0f * fm_sigmoid(fmaf(m[4 + i], scale[1], base[4 + i]));
        for (uint32_t j = 0; j < STREAMS; j++)
            c[i][j] = fmaf(m[8 + 4 * i + j], scale[2], base[8 + 4 * i + j]);
    }
    softmax_rows(c, eps);
    balance(c, false, eps);
    for (int64_t k = 1; k < a->iterations; k++) {
        balance(c, true, eps);
        balance(c, false, eps);
    }
    for (uint32_t i = 0; i < STREAMS * STREAMS; i++)
        comb[i] = c[i / STREAMS][i % STREAMS];
}

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
    for (uint32_t i = 0; i < rows; i++) {
        float scale = norm_scale(port_f32(&a->streams, begin + i), fn->k, a->rms_eps);
        for (uint32_t k = 0; k < fn->n; k++)
            m[i * fn->n + k] *= scale;
        mix_row(a, m + i * fn->n, begin + i);
    }
}

tf_status cpu_mix(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_mix *a = l->args;
    mix_job job = {d, a, l->rows};
    (void)err;
    uint64_t products = (uint64_t)l->rows * a->fn.members[0].k * a->fn.members[0].n;
    dot_run(d, (l->rows + MIX_ROWS - 1) / MIX_ROWS, products, mix_rows, &job);
    return TF_OK;
}

tf_status cpu_collapse(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_collapse *a = l->args;
    (void)d;
    (void)err;
    size_t stride = a->streams.stride[1];
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *x = port_f32(&a->streams, i);
        const float *pre = port_f32(&a->pre, i);
        float *y = port_f32(&a->y, i);
        for (uint32_t k = 0; k < a->streams.shape[2]; k++) {
            float sum = pre[0] * x[k];
            for (uint32_t s = 1; s < a->streams.shape[1]; s++)
                sum = fmaf(pre[s], x[s * stride + k], sum);
            y[k] = sum;
        }
    }
    return TF_OK;
}

tf_status cpu_post(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_post *a = l->args;
    (void)d;
    (void)err;
    size_t stride = a->streams.stride[1];
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *b = port_f32(&a->x, i);
        const float *post = port_f32(&a->post, i);
        const float *comb = port_f32(&a->comb, i);
        float *x = port_f32(&a->streams, i);
        for (uint32_t k = 0; k < a->streams.shape[2]; k++) {
            float in[STREAMS];
            for (uint32_t s = 0; s < STREAMS; s++)
                in[s] = x[s * stride + k];
            for (uint32_t j = 0; j < STREAMS; j++) {
                float sum = post[j] * b[k];
                for (uint32_t s = 0; s < STREAMS; s++)
                    sum = fmaf(comb[STREAMS * s + j], in[s], sum);
                x[j * stride + k] = sum;
            }
        }
    }
    return TF_OK;
}
