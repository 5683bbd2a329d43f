#include "engine/cpu/attend.h"

#include "engine/cpu/dot.h"
#include "engine/cpu/where.h"

#include <string.h>

static uint32_t groups_of(uint32_t heads) {
    return (heads + ATTEND_LANES - 1) / ATTEND_LANES;
}

/* ---- attention ---- */

static size_t most_keys(const args_attend *a, uint32_t rows) {
    size_t chosen = a->choice.data == NULL ? 0 : a->choice.shape[1];
    return chosen + (size_t)a->window + (a->causal ? 0 : rows);
}

void cpu_attend_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                     size_t *shared_bytes) {
    const args_attend *a = l->args;
    size_t keys = most_keys(a, l->rows);
    (void)d;
    (void)shared_bytes;
    *worker_bytes = keys * sizeof(float *) + keys * ATTEND_LANES * sizeof(float) +
                    (size_t)a->q.shape[2] * ATTEND_LANES * sizeof(float);
}

typedef struct key_list {
    const float **keys;
    uint32_t count;
} key_list;

/* Compressed rows first, as chosen: ascending, up to the first -1. */
static void add_chosen(const args_attend *a, uint32_t row, key_list *out) {
    if (a->choice.data == NULL) return;
    const int32_t *choice = port_i32(&a->choice, row);
    int32_t slot = port_slot(&a->where, row);
    for (uint32_t k = 0; k < a->choice.shape[1] && choice[k] >= 0; k++)
        out->keys[out->count++] =
            port_state_row(&a->rows, slot, (uint64_t)choice[k] % (uint64_t)a->rows_capacity);
}

/* Then positions [begin, end) of the window: older ones from the ring, this step's from kv. */
static void add_window(const args_attend *a, uint32_t row, int64_t begin, int64_t end,
                       key_list *out) {
    uint32_t first = where_first(&a->where, row);
    int64_t fresh = port_position(&a->where, first);
    int32_t slot = port_slot(&a->where, row);
    for (int64_t p = begin < 0 ? 0 : begin; p < end; p++) {
        out->keys[out->count++] = p < fresh
                                      ? port_state_row(&a->ring, slot, (uint64_t)(p % a->capacity))
                                      : port_f32(&a->kv, first + (size_t)(p - fresh));
    }
}

static void list_keys(const args_attend *a, uint32_t rows, uint32_t row, key_list *out) {
    add_chosen(a, row, out);
    if (a->causal) {
        int64_t p = port_position(&a->where, row);
        add_window(a, row, p - a->window + 1, p + 1, out);
        return;
    }
    int64_t p = port_position(&a->where, 0);
    add_window(a, 0, p - a->window, p, out);
    for (uint32_t i = 0; i < rows; i++)
        out->keys[out->count++] = port_f32(&a->kv, i);
}

typedef struct attend_job {
    const cpu_device *d;
    const args_attend *a;
    uint32_t rows, groups;
} attend_job;

static void attend_one(void *context, size_t index, uint32_t worker) {
    const attend_job *j = context;
    const args_attend *a = j->a;
    uint32_t row = (uint32_t)(index / j->groups);
    uint32_t begin = (uint32_t)(index % j->groups) * ATTEND_LANES;
    uint32_t all = a->q.shape[1];
    uint32_t dim = a->q.shape[2];
    float sink[ATTEND_LANES] = {0};
    key_list list = {.keys = cpu_scratch(j->d, worker)};
    float *scores = (float *)(void *)(list.keys + most_keys(a, j->rows));
    float *q = scores + most_keys(a, j->rows) * ATTEND_LANES;
    attend_task t = {
        .dim = dim,
        .scale = (float)a->scale,
        .q = q,
        .scores = scores,
        .sink = sink,
        .heads = all - begin < ATTEND_LANES ? all - begin : ATTEND_LANES,
        .y = port_f32(&a->y, row) + (size_t)begin * dim,
    };
    list_keys(a, j->rows, row, &list);
    t.keys = list.keys;
    t.count = list.count;
    memcpy(sink, (const float *)a->sink.data + begin, t.heads * sizeof *sink);
    const attend_steps *steps = CPU_STEPS(attend, j->d->isa);
    steps->turn(port_f32(&a->q, row) + (size_t)begin * dim, t.heads, dim, q);
    steps->attend(&t);
}

tf_status cpu_attend(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_attend *a = l->args;
    attend_job job = {d, a, l->rows, groups_of(a->q.shape[1])};
    size_t jobs = (size_t)l->rows * job.groups;
    (void)err;
    dot_run(d, jobs, jobs * most_keys(a, l->rows) * a->q.shape[2] * ATTEND_LANES * 2, attend_one,
            &job);
    return TF_OK;
}

/* ---- index scores ---- */

#define SCORES_KEYS 256u /* of a job */

void cpu_scores_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                     size_t *shared_bytes) {
    const args_scores *a = l->args;
    size_t lanes = (size_t)groups_of(a->q.shape[1]) * ATTEND_LANES;
    (void)d;
    (void)shared_bytes;
    *worker_bytes = lanes * (a->q.shape[2] + 1) * sizeof(float);
}

typedef struct scores_job {
    const cpu_device *d;
    const args_scores *a;
    uint32_t blocks; /* of keys, in the capacity */
} scores_job;

static void score_keys(const scores_job *j, uint32_t row, uint32_t begin, uint32_t end,
                       uint32_t worker) {
    const args_scores *a = j->a;
    uint32_t heads = a->q.shape[1];
    uint32_t dim = a->q.shape[2];
    uint32_t groups = groups_of(heads);
    float *q = cpu_scratch(j->d, worker);
    float *w = q + (size_t)groups * ATTEND_LANES * dim;
    const float *keys[ATTEND_LANES];
    const attend_steps *steps = CPU_STEPS(attend, j->d->isa);
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t first = g * ATTEND_LANES;
        uint32_t n = heads - first < ATTEND_LANES ? heads - first : ATTEND_LANES;
        steps->turn(port_f32(&a->q, row) + (size_t)first * dim, n, dim, q + (size_t)first * dim);
    }
    for (uint32_t h = 0; h < heads; h++)
        w[h] = port_f32(&a->weights, row)[h] * (float)a->scale;
    for (uint32_t k = begin; k < end; k += ATTEND_LANES) {
        uint32_t count = end - k < ATTEND_LANES ? end - k : ATTEND_LANES;
        for (uint32_t i = 0; i < count; i++)
            keys[i] = port_state_row(&a->keys, port_slot(&a->where, row),
                                     (k + i) % (uint64_t)a->capacity);
        index_task t = {keys, count, dim, groups, q, w, heads, port_f32(&a->y, row) + k};
        steps->index(&t);
    }
}

static void scores_one(void *context, size_t index, uint32_t worker) {
    const scores_job *j = context;
    uint32_t row = (uint32_t)(index / j->blocks);
    uint32_t begin = (uint32_t)(index % j->blocks) * SCORES_KEYS;
    uint32_t visible = where_visible(&j->a->where, row, j->a->ratio);
    uint32_t end = begin + SCORES_KEYS < visible ? begin + SCORES_KEYS : visible;
    if (begin < end) score_keys(j, row, begin, end, worker);
}

tf_status cpu_scores(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_scores *a = l->args;
    scores_job job = {d, a, ((uint32_t)a->capacity + SCORES_KEYS - 1) / SCORES_KEYS};
    uint64_t products = 0;
    (void)err;
    for (uint32_t i = 0; i < l->rows; i++)
        products += where_visible(&a->where, i, a->ratio);
    dot_run(d, (size_t)l->rows * job.blocks, products * a->q.shape[1] * a->q.shape[2], scores_one,
            &job);
    return TF_OK;
}
