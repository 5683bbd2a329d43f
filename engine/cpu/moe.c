#include "engine/cpu/moe.h"

#include "engine/base/check.h"
#include "engine/cpu/dot_inner.h"

#include <string.h>

/* ---- rows by expert ---- */

/* Rows come in chunks of MOE_ROWS.  A pick is row * slots + slot; group e < experts holds the picks of
 * expert first + e, the last group every row's shared expert. */
typedef struct groups {
    uint32_t rows, chunks;
    uint32_t experts, slots; /* slots: of a row, the shared one included */
    uint32_t *begin;         /* [chunks][experts + 2] into the chunk's picks */
    uint32_t *picks;         /* [chunks][MOE_ROWS * slots] ascending within a group */
} groups;

static groups groups_of(const port_tensor *ids, uint32_t rows, const port_weight *w, void *memory) {
    groups g = {
        .rows = rows,
        .chunks = (rows + MOE_ROWS - 1) / MOE_ROWS,
        .experts = w->count,
        .slots = ids->shape[1] + 1,
        .begin = memory,
    };
    if (memory != NULL) g.picks = g.begin + (size_t)g.chunks * (g.experts + 2);
    return g;
}

static size_t groups_bytes(const groups *g) {
    size_t chunk = g->experts + 2 + (size_t)MOE_ROWS * g->slots;
    return g->chunks * chunk * sizeof(uint32_t);
}

static uint32_t chunk_rows(const groups *g, uint32_t chunk) {
    uint32_t left = g->rows - chunk * MOE_ROWS;
    return left < MOE_ROWS ? left : MOE_ROWS;
}
static uint32_t *begins(const groups *g, uint32_t chunk) {
    return g->begin + (size_t)chunk * (g->experts + 2);
}
static uint32_t *picks(const groups *g, uint32_t chunk) {
    return g->picks + (size_t)chunk * MOE_ROWS * g->slots;
}

static uint32_t group_of(const groups *g, const port_tensor *ids, uint32_t first, uint32_t row,
                         uint32_t slot) {
    if (slot + 1 == g->slots) return g->experts;
    uint32_t group = (uint32_t)port_i32(ids, row)[slot] - first;
    TF_ASSERT(group < g->experts);
    return group;
}

/* Counts, adds up, and puts every pick where its group has come to. */
static void list_chunk(groups *g, const port_tensor *ids, uint32_t first, uint32_t chunk) {
    uint32_t *begin = begins(g, chunk);
    uint32_t *pick = picks(g, chunk);
    uint32_t row = chunk * MOE_ROWS;
    uint32_t end = row + chunk_rows(g, chunk);
    memset(begin, 0, (g->experts + 2) * sizeof *begin);
    for (uint32_t r = row; r < end; r++) {
        for (uint32_t s = 0; s < g->slots; s++)
            begin[group_of(g, ids, first, r, s) + 1]++;
    }
    for (uint32_t e = 0; e <= g->experts; e++)
        begin[e + 1] += begin[e];
    for (uint32_t r = row; r < end; r++) {
        for (uint32_t s = 0; s < g->slots; s++)
            pick[begin[group_of(g, ids, first, r, s)]++] = r * g->slots + s;
    }
    /* Each begin has moved to its group's end, which is the next one's begin. */
    for (uint32_t e = g->experts + 1; e > 0; e--)
        begin[e] = begin[e - 1];
    begin[0] = 0;
}

static void list_all(groups *g, const port_tensor *ids, uint32_t first) {
    for (uint32_t c = 0; c < g->chunks; c++)
        list_chunk(g, ids, first, c);
}

/* ---- up ---- */

typedef struct up {
    const cpu_device *d;
    const args_experts_up *a;
    groups g;
    const uint32_t *active; /* chunk * (experts + 1) + group, of those that have picks */
    uint32_t blocks;
} up;

typedef struct up_scratch {
    dot_scratch dot;
    float gate[DOT_ROWS * DOT_BLOCK];
    float value[DOT_ROWS * DOT_BLOCK];
} up_scratch;

void cpu_experts_up_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                         size_t *shared_bytes) {
    const args_experts_up *a = l->args;
    groups g = groups_of(&a->ids, l->rows, &a->w1, NULL);
    (void)d;
    *worker_bytes = sizeof(up_scratch);
    *shared_bytes = groups_bytes(&g) + (size_t)g.chunks * (g.experts + 1) * sizeof(uint32_t);
}

static void up_rows(const up *u, up_scratch *s, const port_linear *const w[2], uint32_t block,
                    const uint32_t *pick, uint32_t rows) {
    const args_experts_up *a = u->a;
    const dot_steps *steps = dot_steps_of(u->d->isa);
    uint32_t lanes = w[0]->n - block * DOT_BLOCK;
    if (lanes > DOT_BLOCK) lanes = DOT_BLOCK;
    const float *x[DOT_ROWS];
    for (uint32_t i = 0; i < rows; i++)
        x[i] = port_f32(&a->x, pick[i] / u->g.slots);
    dot_task t = {.w = w[0], .x = x, .rows = rows, .k_end = w[0]->k, .block = block};
    dot_leaf(u->d, &s->dot, &t, s->gate);
    t.w = w[1];
    dot_leaf(u->d, &s->dot, &t, s->value);
    for (uint32_t i = 0; i < rows; i++) {
        float *y = port_f32(&a->y, pick[i] / u->g.slots) + pick[i] % u->g.slots * a->y.stride[1] +
                   (size_t)block * DOT_BLOCK;
        steps->gate(s->gate + i * DOT_BLOCK, s->value + i * DOT_BLOCK, (float)a->limit, lanes, y);
    }
}

static void do_up(void *context, size_t index, uint32_t worker) {
    const up *u = context;
    const args_experts_up *a = u->a;
    uint32_t which = u->active[index / u->blocks];
    uint32_t chunk = which / (u->g.experts + 1);
    uint32_t group = which % (u->g.experts + 1);
    bool shared = group == u->g.experts;
    const port_linear *const w[2] = {
        shared ? a->shared_w1.members : &a->w1.members[group],
        shared ? a->shared_w3.members : &a->w3.members[group],
    };
    const uint32_t *begin = begins(&u->g, chunk) + group;
    for (uint32_t at = begin[0]; at < begin[1]; at += DOT_ROWS) {
        uint32_t rows = begin[1] - at < DOT_ROWS ? begin[1] - at : DOT_ROWS;
        up_rows(u, cpu_scratch(u->d, worker), w, (uint32_t)(index % u->blocks),
                picks(&u->g, chunk) + at, rows);
    }
}

tf_status cpu_experts_up(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_experts_up *a = l->args;
    up u = {.d = d, .a = a, .g = groups_of(&a->ids, l->rows, &a->w1, d->shared)};
    (void)err;
    list_all(&u.g, &a->ids, a->w1.first);
    u.blocks = panel_blocks(a->shared_w1.members);
    uint32_t *active = (uint32_t *)(void *)(d->shared + groups_bytes(&u.g));
    u.active = active;
    size_t count = 0;
    for (uint32_t c = 0; c < u.g.chunks; c++) {
        const uint32_t *begin = begins(&u.g, c);
        /* The shared expert first: it has most rows. */
        for (uint32_t e = u.g.experts + 1; e-- > 0;) {
            if (begin[e] < begin[e + 1]) active[count++] = c * (u.g.experts + 1) + e;
        }
    }
    const port_linear *w = a->shared_w1.members;
    dot_run(d, count * u.blocks, 2ull * l->rows * u.g.slots * w->k * w->n, do_up, &u);
    return TF_OK;
}

/* ---- down ---- */

/* Job: chunk, interval, block. */
typedef struct down {
    const cpu_device *d;
    const args_experts_down *a;
    groups g;
    dot_slabs slabs;
    uint32_t blocks, intervals;
} down;

static down down_of(const cpu_device *d, const port_launch *l, void *memory) {
    const args_experts_down *a = l->args;
    return (down){
        .d = d,
        .a = a,
        .g = groups_of(&a->ids, l->rows, &a->w2, memory),
        .blocks = panel_blocks(a->shared_w2.members),
        .slabs = {a->cover, a->first_leaf, a->leaves},
        .intervals = dot_slabs_count(&a->cover),
    };
}

void cpu_experts_down_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                           size_t *shared_bytes) {
    down w = down_of(d, l, NULL);
    size_t most = dot_most_leaves(&w.slabs);
    size_t rows = l->rows < MOE_ROWS ? l->rows : MOE_ROWS;
    *worker_bytes =
        sizeof(dot_scratch) + (DOT_ROWS + (most + 1) * rows) * DOT_BLOCK * sizeof(float);
    *shared_bytes = groups_bytes(&w.g);
}

typedef struct down_scratch {
    dot_scratch *dot;
    float *part; /* [DOT_ROWS, 128] */
    float *sums; /* [leaves + 1][rows, 128] */
} down_scratch;

/* Adds what the picks of one group give to the rows' sums of one leaf. */
static void add_group(const down *w, const down_scratch *s, const dot_task *leaf, uint32_t chunk,
                      uint32_t group, float *acc) {
    const args_experts_down *a = w->a;
    const dot_steps *steps = dot_steps_of(w->d->isa);
    const uint32_t *begin = begins(&w->g, chunk) + group;
    bool shared = group == w->g.experts;
    dot_task t = *leaf;
    const float *x[DOT_ROWS];
    t.w = shared ? a->shared_w2.members : &a->w2.members[group];
    t.x = x;
    for (uint32_t at = begin[0]; at < begin[1]; at += DOT_ROWS) {
        const uint32_t *pick = picks(&w->g, chunk) + at;
        t.rows = begin[1] - at < DOT_ROWS ? begin[1] - at : DOT_ROWS;
        for (uint32_t i = 0; i < t.rows; i++)
            x[i] = port_f32(&a->x, pick[i] / w->g.slots) + pick[i] % w->g.slots * a->x.stride[1];
        dot_leaf(w->d, s->dot, &t, s->part);
        for (uint32_t i = 0; i < t.rows; i++) {
            uint32_t row = pick[i] / w->g.slots;
            float weight = shared ? 1.0f : port_f32(&a->weights, row)[pick[i] % w->g.slots];
            steps->add_weighted(weight, s->part + i * DOT_BLOCK,
                                acc + (row - chunk * MOE_ROWS) * DOT_BLOCK);
        }
    }
}

static void do_down(void *context, size_t index, uint32_t worker) {
    const down *w = context;
    const args_experts_down *a = w->a;
    uint32_t block = (uint32_t)(index % w->blocks);
    index /= w->blocks;
    uint32_t interval = (uint32_t)(index % w->intervals);
    uint32_t chunk = (uint32_t)(index / w->intervals);
    canon_range own = dot_interval(&w->slabs, interval);
    uint32_t rows = chunk_rows(&w->g, chunk);
    uint32_t leaves = canon_size(own);
    size_t size = (size_t)rows * DOT_BLOCK;
    down_scratch s = {.dot = cpu_scratch(w->d, worker)};
    s.part = (float *)(void *)(s.dot + 1);
    s.sums = s.part + DOT_ROWS * DOT_BLOCK;

    for (uint32_t i = 0; i < leaves; i++) {
        uint32_t k = (own.begin + i - (uint32_t)a->first_leaf) * (uint32_t)a->leaf;
        uint32_t end = a->shared_w2.members->k;
        if (end - k > (uint32_t)a->leaf) end = k + (uint32_t)a->leaf;
        dot_task leaf = {.k_begin = k, .k_end = end, .block = block};
        float *acc = s.sums + i * size;
        memset(acc, 0, size * sizeof *acc);
        for (uint32_t group = 0; group <= w->g.experts; group++)
            add_group(w, &s, &leaf, chunk, group, acc);
    }
    const float *sum = dot_join(s.sums, own, size);
    uint32_t lanes = a->shared_w2.members->n - block * DOT_BLOCK;
    if (lanes > DOT_BLOCK) lanes = DOT_BLOCK;
    for (uint32_t r = 0; r < rows; r++)
        memcpy((float *)a->y.data + interval * a->y.stride[0] +
                   (size_t)(chunk * MOE_ROWS + r) * a->y.stride[1] + (size_t)block * DOT_BLOCK,
               sum + r * DOT_BLOCK, lanes * sizeof *sum);
}

tf_status cpu_experts_down(cpu_device *d, const port_launch *l, tf_error *err) {
    down w = down_of(d, l, d->shared);
    const port_linear *shared = w.a->shared_w2.members;
    (void)err;
    list_all(&w.g, &w.a->ids, w.a->w2.first);
    dot_run(d, (size_t)w.g.chunks * w.intervals * w.blocks,
            (uint64_t)l->rows * w.g.slots * shared->k * shared->n, do_down, &w);
    return TF_OK;
}
