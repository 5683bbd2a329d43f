/* cpu/choice - experts and tokens: who is chosen (MODEL, MoE; NUMERICS, Top-k and sampling).
 *
 * Idea: higher value first, lower index on a tie.  A draw is the best of logit + T . noise, where the
 * noise is -ln(-ln u) and u depends on seed, position and id alone: ranks need not agree on anything to
 * draw alike, and the colder it is the nearer to the best logit.
 * Trap: a bias chooses and does not weigh; a NaN is no value and is refused. */
#include "engine/base/check.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/topk.h"

#include <string.h>

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

/* Experts of a row, or what stands where one has no number. */
#define NO_NUMBER (-1)

/* scores [experts]; chosen experts ascending, so their sum is too. */
static void choose_experts(const args_route *a, const float *scores, uint32_t *keys, uint32_t row) {
    const float *bias = a->bias.data;
    uint32_t experts = a->w.members[0].n;
    int32_t *ids = port_i32(&a->ids, row);
    float *weights = port_f32(&a->weights, row);
    float sum = 0.0f;
    for (uint32_t e = 0; e < experts; e++) {
        if (topk_is_nan(scores[e] + bias[e])) {
            ids[0] = NO_NUMBER;
            return;
        }
        keys[e] = topk_key(scores[e] + bias[e]);
    }
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
    char *scratch = cpu_scratch(j->d, worker);
    uint32_t *keys = (uint32_t *)(void *)(scratch + DOT_WHOLE_BYTES);
    dot_rows r = {port_f32(&a->x, begin), a->x.stride[0], rows, scores, experts};
    dot_whole(j->d, scratch, &a->w.members[0], &r);
    rows_steps_of(j->d->isa)->affinity(scores, (size_t)rows * experts);
    for (uint32_t i = 0; i < rows; i++)
        choose_experts(a, scores + (size_t)i * experts, keys, begin + i);
}

static tf_status refuse_expert(const cpu_device *d, const port_launch *l, uint32_t row,
                               tf_error *err) {
    const args_route *a = l->args;
    uint32_t experts = a->w.members[0].n;
    const float *scores = (const float *)(void *)d->shared + (size_t)row * experts;
    const float *bias = a->bias.data;
    uint32_t e = 0;
    while (!topk_is_nan(scores[e] + bias[e]))
        e++;
    return topk_refuse_nan(l, row, e, err);
}

tf_status cpu_route(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_route *a = l->args;
    route_job job = {d, a, l->rows};
    dot_run(d, (l->rows + ROUTE_ROWS - 1) / ROUTE_ROWS,
            (uint64_t)l->rows * a->w.members[0].n * a->w.members[0].k, route_rows, &job);
    for (uint32_t i = 0; i < l->rows; i++) {
        if (*port_i32(&a->ids, i) == NO_NUMBER) return refuse_expert(d, l, i, err);
    }
    return TF_OK;
}

/* ---- tokens ---- */

#define DRAWS 512u /* at once */

/* Heat and key of a row: entry 0 where all rows are of one request, else the row's own. */
static void draw_setting(const args_best *a, uint32_t row, rows_draw *out) {
    uint32_t entry = a->where.slot_count == 1 ? 0 : row;
    int64_t seed = ((const int64_t *)a->seed.data)[entry];
    int64_t position = port_position(&a->where, row) + a->ahead;
    out->heat = (float)((const double *)a->temperature.data)[entry];
    out->key = rows_mixed(rows_mixed((uint64_t)seed) ^ (uint64_t)position * 0x9e3779b97f4a7c15ull);
}

/* y [2]: the best value and its id; a NaN and where it stands, if there is one. */
static void best_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const args_best *a = w->args;
    const float *logits = port_f32(&a->logits, row);
    uint32_t all = a->logits.shape[1];
    float *best = port_f32(&a->y, row);
    float drawn[DRAWS];
    rows_draw t = {.y = drawn};
    (void)worker;
    draw_setting(a, row, &t);
    for (uint32_t begin = 0; begin < all; begin += DRAWS) {
        const float *value = logits + begin;
        t.n = all - begin < DRAWS ? all - begin : DRAWS;
        if (t.heat > 0.0f) {
            t.logits = value;
            t.first = (uint64_t)a->first + begin;
            w->steps->draw(&t);
            value = drawn;
        }
        if (begin > 0 && !w->steps->beats(value, t.n, best[0])) continue;
        for (uint32_t k = 0; k < t.n; k++) {
            bool nan = topk_is_nan(value[k]);
            if (begin + k > 0 && !nan && !(value[k] > best[0])) continue;
            best[0] = value[k];
            best[1] = (float)(a->first + begin + k);
            if (nan) return;
        }
    }
}

tf_status cpu_best(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_best *a = l->args;
    rows_work w = {d, rows_steps_of(d->isa), a, best_row, l->rows};
    rows_run(&w, a->logits.shape[1]);
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *best = port_f32(&a->y, i);
        if (topk_is_nan(best[0])) return topk_refuse_nan(l, i, (uint32_t)best[1], err);
    }
    return TF_OK;
}

/* Ranks ascend, and so do their ids. */
tf_status cpu_pick(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_pick *a = l->args;
    (void)d;
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *best = port_f32(&a->x, 0) + i * a->x.stride[1];
        for (uint32_t r = 0; r < a->x.shape[0]; r++) {
            const float *own = port_f32(&a->x, r) + i * a->x.stride[1];
            if (topk_is_nan(own[0])) return topk_refuse_nan(l, i, r, err);
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
