/* cpu/choice - experts and tokens: who is chosen (MODEL, MoE; NUMERICS, Top-k and sampling).
 *
 * Idea: higher value first, lower index on a tie.  A draw is the best of logit / T plus noise that
 * depends on seed, position and id alone, so ranks need not agree on anything to draw alike.
 * Trap: a bias chooses and does not weigh; a NaN is no value and is refused. */
#include "engine/base/check.h"
#include "engine/canon/fmath.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/topk.h"

#include <string.h>

static tf_status refuse_nan(const port_launch *l, uint32_t row, uint32_t index, tf_error *err) {
    tf_fail(err, TF_W_NOT_A_NUMBER, "%s: choosing for row %u", l->name, row);
    tf_found(err, "a NaN at %u", index);
    return tf_expected(err, "numbers");
}

/* ---- experts ---- */

static size_t route_keys_bytes(const args_route *a) {
    return ((size_t)a->w.members[0].n * sizeof(uint32_t) + 63) / 64 * 64;
}

void cpu_route_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                    size_t *shared_bytes) {
    const args_route *a = l->args;
    (void)d;
    *worker_bytes = DOT_WHOLE_BYTES + route_keys_bytes(a);
    *shared_bytes = (size_t)l->rows * a->w.members[0].n * sizeof(float);
}

/* scores [experts]; chosen experts ascending, so their sum is too. */
static void choose_experts(const args_route *a, const float *scores, uint32_t *keys, uint32_t row) {
    const float *bias = a->bias.data;
    uint32_t experts = a->w.members[0].n;
    int32_t *ids = port_i32(&a->ids, row);
    float *weights = port_f32(&a->weights, row);
    float sum = 0.0f;
    for (uint32_t e = 0; e < experts; e++)
        keys[e] = topk_key(scores[e] + bias[e]);
    uint32_t count = topk_choose(keys, experts, (uint32_t)a->topk, ids);
    for (uint32_t k = 0; k < count; k++)
        sum += scores[ids[k]];
    sum += (float)a->eps;
    for (uint32_t k = 0; k < count; k++)
        weights[k] = scores[ids[k]] / sum * (float)a->scale;
}

typedef struct route_job {
    const cpu_device *d;
    const args_route *a;
    uint32_t rows;
} route_job;

#define ROUTE_ROWS 16u /* of a job */

static void route_rows(void *context, size_t index, uint32_t worker) {
    const route_job *j = context;
    const args_route *a = j->a;
    uint32_t experts = a->w.members[0].n;
    uint32_t begin = (uint32_t)index * ROUTE_ROWS;
    uint32_t rows = j->rows - begin < ROUTE_ROWS ? j->rows - begin : ROUTE_ROWS;
    float *scores = (float *)(void *)j->d->shared + (size_t)begin * experts;
    dot_rows r = {port_f32(&a->x, begin), a->x.stride[0], rows, scores, experts};
    dot_whole(j->d, cpu_scratch(j->d, worker), &a->w.members[0], &r);
    for (uint32_t i = 0; i < rows * experts; i++)
        scores[i] = sqrtf(fm_softplus(scores[i]));
}

tf_status cpu_route(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_route *a = l->args;
    uint32_t experts = a->w.members[0].n;
    route_job job = {d, a, l->rows};
    uint32_t *keys = (uint32_t *)(void *)((char *)cpu_scratch(d, 0) + DOT_WHOLE_BYTES);
    dot_run(d, (l->rows + ROUTE_ROWS - 1) / ROUTE_ROWS,
            (uint64_t)l->rows * experts * a->w.members[0].k, route_rows, &job);
    const float *bias = a->bias.data;
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *scores = (const float *)(void *)d->shared + (size_t)i * experts;
        for (uint32_t e = 0; e < experts; e++) {
            if (topk_is_nan(scores[e] + bias[e])) return refuse_nan(l, i, e, err);
        }
        choose_experts(a, scores, keys, i);
    }
    return TF_OK;
}

/* ---- tokens ---- */

static uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* -ln(-ln u), u of 24 bits in (0, 1): the best of logit / T + this is a draw by softmax. */
static float noise(uint64_t key, uint64_t id) {
    uint64_t bits = mixed(key + (id + 1) * 0x9e3779b97f4a7c15ull) >> 40;
    float u = ((float)bits + 0.5f) * 0x1p-24f;
    return -fm_log(-fm_log(u));
}

static tf_status best_of(const port_launch *l, uint32_t row, float *best, tf_error *err) {
    const args_best *a = l->args;
    const float *logits = port_f32(&a->logits, row);
    uint32_t slot = a->where.slot_count == 1 ? 0 : row;
    double temperature = ((const double *)a->temperature.data)[slot];
    int64_t seed = ((const int64_t *)a->seed.data)[slot];
    int64_t position = port_position(&a->where, row) + a->ahead;
    uint64_t key = mixed(mixed((uint64_t)seed) ^ (uint64_t)position * 0x9e3779b97f4a7c15ull);
    for (uint32_t k = 0; k < a->logits.shape[1]; k++) {
        float value = logits[k];
        if (topk_is_nan(value)) return refuse_nan(l, row, k, err);
        if (temperature > 0.0)
            value = value / (float)temperature + noise(key, (uint64_t)a->first + k);
        if (k > 0 && !(value > best[0])) continue;
        best[0] = value;
        best[1] = (float)(a->first + k);
    }
    return TF_OK;
}

tf_status cpu_best(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_best *a = l->args;
    tf_status status = TF_OK;
    (void)d;
    for (uint32_t i = 0; status == TF_OK && i < l->rows; i++)
        status = best_of(l, i, port_f32(&a->y, i), err);
    return status;
}

/* Ranks ascend, and so do their ids. */
tf_status cpu_pick(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_pick *a = l->args;
    (void)d;
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *best = port_f32(&a->x, 0) + i * a->x.stride[1];
        for (uint32_t r = 0; r < a->x.shape[0]; r++) {
            const float *own = port_f32(&a->x, r) + i * a->x.stride[1];
            if (topk_is_nan(own[0])) return refuse_nan(l, i, r, err);
            if (own[0] > best[0]) best = own;
        }
        *port_i32(&a->y, i) = (int32_t)best[1];
    }
    return TF_OK;
}

/* ---- confidence ---- */

void cpu_confidence_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                         size_t *shared_bytes) {
    const args_confidence *a = l->args;
    (void)d;
    (void)shared_bytes;
    *worker_bytes = DOT_WHOLE_BYTES + a->w.members[0].k * sizeof(float);
}

tf_status cpu_confidence(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_confidence *a = l->args;
    char *scratch = cpu_scratch(d, 0);
    float *both = (float *)(void *)(scratch + DOT_WHOLE_BYTES);
    (void)err;
    uint32_t hidden = a->hidden.shape[a->hidden.dims - 1];
    uint32_t embed = a->embed.shape[a->embed.dims - 1];
    TF_ASSERT(hidden + embed == a->w.members[0].k);
    memcpy(both, a->hidden.data, hidden * sizeof *both);
    memcpy(both + hidden, a->embed.data, embed * sizeof *both);
    dot_rows r = {both, hidden + embed, 1, a->y.data, 1};
    dot_whole(d, scratch, &a->w.members[0], &r);
    return TF_OK;
}
