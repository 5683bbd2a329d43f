#include "engine/cpu/dot.h"

#include "engine/base/check.h"
#include "engine/canon/reduce.h"
#include "engine/cpu/dot_inner.h"

#include <string.h>

/* Fewer products than this are done before a team has woken up. */
#define TEAM_PRODUCTS (1u << 18)

const dot_steps *dot_steps_of(cpu_isa isa) {
    return CPU_STEPS(dot, isa);
}

void dot_run(const cpu_device *d, size_t jobs, uint64_t products, team_job job, void *context) {
    if (TF_ONLY_SPEED(products >= TEAM_PRODUCTS)) {
        team_run(d->team, jobs, job, context);
        return;
    }
    for (size_t i = 0; i < jobs; i++)
        job(context, i, 0);
}

/* ---- one leaf ---- */

static bool rounds_x(const cpu_device *d, const port_linear *w) {
    return d->base.profile == PROFILE_BF16 && (w->form == WEIGHT_EXL3 || w->dtype == DTYPE_BF16);
}

/* x of up to 128 k, as the products take it. */
static void make_ready(const cpu_device *d, const dot_task *t, uint32_t k, uint32_t count,
                       float *x) {
    const dot_steps *steps = dot_steps_of(d->isa);
    const port_linear *w = t->w;
    for (uint32_t r = 0; r < t->rows; r++, x += DOT_BLOCK) {
        const float *from = t->x[r] + k;
        if (w->form == WEIGHT_EXL3) {
            steps->turn_in(from, w->suh + k, x);
            from = x;
        }
        if (rounds_x(d, w)) {
            steps->round_bf16(from, count, x);
        } else if (from != x) {
            memcpy(x, from, count * sizeof *x);
        }
    }
}

/* What tiles can do of a leaf; returns where the rest begins. */
static uint32_t by_tiles(const cpu_device *d, dot_scratch *s, const dot_task *t, float *acc) {
    uint32_t end = t->k_end - (t->k_end - t->k_begin) % DOT_SUB;
    if (d->isa != CPU_AMX || t->w->form == WEIGHT_EXL3 || !rounds_x(d, t->w)) return t->k_begin;
#if defined(__x86_64__)
    dot_tiles_amx(t, s, end, acc);
#endif
    return end;
}

void dot_widen(const dot_steps *steps, const port_linear *w, uint32_t block, uint32_t k,
               float *slab, dot_slab *out) {
    out->w = slab;
    if (w->form == WEIGHT_EXL3) {
        steps->widen_exl3(w, block, k, slab);
    } else if (w->dtype == DTYPE_BF16) {
        steps->widen_bf16(dot_u16_at(w, block, k), out, slab);
    } else if (w->dtype == DTYPE_F16) {
        steps->widen_f16(dot_u16_at(w, block, k), out, slab);
    } else {
        out->w = dot_f32_at(w, block, k);
    }
}

/* Sub-blocks of up to 128 k whose x is ready. */
static void some_subs(const dot_steps *steps, dot_scratch *s, const dot_task *t, canon_range k,
                      float *acc) {
    const port_linear *w = t->w;
    dot_slab slab = {.panels = panel_count(w, t->block)};
    slab.stride = PANEL * slab.panels;
    bool one_row = TF_ONLY_SPEED(t->rows == 1) && steps->one_row != NULL &&
                   slab.panels == DOT_BLOCK / PANEL &&
                   (w->form == WEIGHT_EXL3 || w->dtype == DTYPE_BF16);
    for (uint32_t at = k.begin; at < k.end; at += DOT_SUB) {
        const float *x = s->x + (at - k.begin);
        if (one_row && k.end - at >= DOT_SUB) {
            steps->one_row(w, t->block, at, x, acc);
            continue;
        }
        slab.count = k.end - at < DOT_SUB ? k.end - at : DOT_SUB;
        dot_widen(steps, w, t->block, at, s->slab, &slab);
        steps->multiply(&slab, x, t->rows, acc);
    }
}

void dot_leaf(const cpu_device *d, dot_scratch *s, const dot_task *t, float *acc) {
    const dot_steps *steps = dot_steps_of(d->isa);
    const port_linear *w = t->w;
    bool exl3 = w->form == WEIGHT_EXL3;
    TF_ASSERT(t->rows <= DOT_ROWS && t->k_begin % DOT_BLOCK == 0 && t->k_end <= w->k);
    TF_ASSERT(!exl3 || (t->k_end % DOT_BLOCK == 0 && w->n % DOT_BLOCK == 0));
    memset(acc, 0, t->rows * DOT_BLOCK * sizeof *acc);
    for (uint32_t k = by_tiles(d, s, t, acc), end; k < t->k_end; k = end) {
        end = t->k_end - k < DOT_BLOCK ? t->k_end : k + DOT_BLOCK;
        make_ready(d, t, k, end - k, s->x);
        some_subs(steps, s, t, (canon_range){k, end}, acc);
    }
    for (uint32_t r = 0; exl3 && r < t->rows; r++)
        steps->turn_out(acc + r * DOT_BLOCK, w->svh + (size_t)t->block * DOT_BLOCK);
}

void dot_whole(const cpu_device *d, void *scratch, const port_linear *w, const dot_rows *r) {
    dot_scratch *s = scratch;
    float *acc = (float *)(void *)(s + 1);
    const float *x[DOT_ROWS];
    for (uint32_t first = 0; first < r->rows; first += DOT_ROWS) {
        uint32_t rows = r->rows - first < DOT_ROWS ? r->rows - first : DOT_ROWS;
        for (uint32_t i = 0; i < rows; i++)
            x[i] = r->x + (first + i) * r->x_stride;
        for (uint32_t b = 0; b < panel_blocks(w); b++) {
            dot_task t = {.w = w, .x = x, .rows = rows, .k_end = w->k, .block = b};
            uint32_t lanes = w->n - b * DOT_BLOCK < DOT_BLOCK ? w->n - b * DOT_BLOCK : DOT_BLOCK;
            dot_leaf(d, s, &t, acc);
            for (uint32_t i = 0; i < rows; i++)
                memcpy(r->y + (first + i) * r->y_stride + (size_t)b * DOT_BLOCK,
                       acc + i * DOT_BLOCK, lanes * sizeof(float));
        }
    }
}

/* ---- what a call ships ---- */

uint32_t dot_slabs_count(const port_ints *cover) {
    return cover->values == NULL ? 1 : cover->count / 2;
}

static canon_range cover_at(const port_ints *cover, uint32_t i) {
    return (canon_range){(uint32_t)cover->values[2 * i], (uint32_t)cover->values[2 * i + 1]};
}

canon_range dot_interval(const dot_slabs *s, uint32_t i) {
    if (s->cover.values != NULL) return cover_at(&s->cover, i);
    return (canon_range){(uint32_t)s->first_leaf, (uint32_t)(s->first_leaf + s->leaves)};
}

uint32_t dot_most_leaves(const dot_slabs *s) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < dot_slabs_count(&s->cover); i++) {
        uint32_t leaves = canon_size(dot_interval(s, i));
        if (leaves > most) most = leaves;
    }
    return most;
}

float *dot_join(float *sums, canon_range own, size_t size) {
    uint32_t leaves = canon_size(own);
    if (leaves <= 1) return sums;
    float *joined = sums + leaves * size;
    canon_subtrees(sums, own, &own, 1, size, joined);
    return joined;
}

/* ---- CALL_DOT ---- */

/* Job: interval, member, block, rows; rows change fastest, so that a block of weights is still near
 * when the next rows want it. */
typedef struct product {
    const cpu_device *d;
    const args_dot *a;
    uint32_t rows, chunks, blocks;
    dot_slabs slabs;
    uint32_t intervals;
} product;

static product product_of(const cpu_device *d, const port_launch *l) {
    const args_dot *a = l->args;
    return (product){
        .d = d,
        .a = a,
        .rows = l->rows,
        .chunks = (l->rows + DOT_ROWS - 1) / DOT_ROWS,
        .blocks = panel_blocks(&a->w.members[0]),
        .slabs = {a->cover, a->first_leaf, a->leaves},
        .intervals = dot_slabs_count(&a->cover),
    };
}

void cpu_dot_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                  size_t *shared_bytes) {
    product p = product_of(d, l);
    size_t rows = p.rows < DOT_ROWS ? p.rows : DOT_ROWS;
    uint32_t leaves = dot_most_leaves(&p.slabs);
    (void)shared_bytes;
    *worker_bytes = sizeof(dot_scratch) + (leaves + 1u) * rows * DOT_BLOCK * sizeof(float);
}

/* A rectangle of y, by [rows, 128] of sums. */
typedef struct place {
    uint32_t interval, member, block, first, rows;
} place;

static void put(const product *p, const place *at, const float *sum) {
    const args_dot *a = p->a;
    bool slabs = a->cover.values != NULL;
    uint32_t n = a->w.members[at->member].n;
    uint32_t begin = at->block * DOT_BLOCK;
    uint32_t lanes = n - begin < DOT_BLOCK ? n - begin : DOT_BLOCK;
    for (uint32_t r = 0; r < at->rows; r++, sum += DOT_BLOCK) {
        size_t row = at->first + r;
        float *y = (float *)a->y.data + begin;
        if (slabs) {
            y += at->interval * a->y.stride[0] + row * a->y.stride[1];
        } else {
            y += row * a->y.stride[0] + (a->y.dims == 3 ? at->member * a->y.stride[1] : 0);
        }
        if (a->add.data == NULL) {
            memcpy(y, sum, lanes * sizeof *y);
            continue;
        }
        const float *add = port_f32(&a->add, row) + begin;
        for (uint32_t i = 0; i < lanes; i++)
            y[i] = add[i] + sum[i];
    }
}

static void do_product(void *context, size_t index, uint32_t worker) {
    const product *p = context;
    const args_dot *a = p->a;
    dot_scratch *s = cpu_scratch(p->d, worker);
    place at = {.first = (uint32_t)(index % p->chunks) * DOT_ROWS};
    index /= p->chunks;
    at.block = (uint32_t)(index % p->blocks);
    index /= p->blocks;
    at.member = (uint32_t)(index % a->w.count);
    at.interval = (uint32_t)(index / a->w.count);
    at.rows = p->rows - at.first < DOT_ROWS ? p->rows - at.first : DOT_ROWS;

    const port_linear *w = &a->w.members[at.member];
    const float *x[DOT_ROWS];
    size_t member = a->x.dims == 3 ? at.member * a->x.stride[1] : 0;
    for (uint32_t r = 0; r < at.rows; r++)
        x[r] = port_f32(&a->x, at.first + r) + member;

    canon_range own = dot_interval(&p->slabs, at.interval);
    uint32_t leaves = canon_size(own);
    size_t size = (size_t)at.rows * DOT_BLOCK;
    float *sums = (float *)(void *)(s + 1); /* [leaves + 1] of [rows, 128] */
    uint32_t leaf_k = (uint32_t)a->leaf;
    for (uint32_t i = 0; i < leaves; i++) {
        uint32_t k = (own.begin + i - (uint32_t)a->first_leaf) * leaf_k;
        uint32_t end = w->k - k < leaf_k ? w->k : k + leaf_k;
        dot_task t = {w, x, at.rows, k, end, at.block};
        dot_leaf(p->d, s, &t, sums + i * size);
    }
    put(p, &at, dot_join(sums, own, size));
}

tf_status cpu_dot(cpu_device *d, const port_launch *l, tf_error *err) {
    product p = product_of(d, l);
    const port_linear *w = p.a->w.members;
    (void)err;
    size_t jobs = (size_t)p.chunks * p.blocks * p.a->w.count * p.intervals;
    uint64_t products = (uint64_t)p.rows * w->k * w->n * p.a->w.count;
    dot_run(d, jobs, products, do_product, &p);
    return TF_OK;
}

/* ---- CALL_REDUCE ---- */

#define REDUCE_COLUMNS 1024u

typedef struct reduction {
    const cpu_device *d;
    const args_reduce *a;
    const canon_range *cover;
    uint32_t count;
    uint32_t pieces; /* of a row */
} reduction;

void cpu_reduce_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                     size_t *shared_bytes) {
    const args_reduce *a = l->args;
    (void)d;
    *worker_bytes = (size_t)a->cover.count / 2 * REDUCE_COLUMNS * sizeof(float);
    *shared_bytes = (size_t)a->cover.count / 2 * sizeof(canon_range);
}

/* Job: some columns of a row.  The intervals' rows lie apart and are brought side by side. */
static void do_reduction(void *context, size_t index, uint32_t worker) {
    const reduction *r = context;
    const port_tensor *x = &r->a->x;
    float *parts = cpu_scratch(r->d, worker);
    size_t row = index / r->pieces;
    size_t begin = index % r->pieces * REDUCE_COLUMNS;
    size_t n = x->shape[2] - begin < REDUCE_COLUMNS ? x->shape[2] - begin : REDUCE_COLUMNS;
    tf_error err = {0};
    for (size_t i = 0; i < r->count; i++) {
        const float *from = (const float *)x->data + i * x->stride[0] + row * x->stride[1] + begin;
        memcpy(parts + i * n, from, n * sizeof *parts);
    }
    tf_status status = canon_reduce(parts, r->cover, r->count, (uint32_t)r->a->leaves, n,
                                    port_f32(&r->a->y, row) + begin, &err);
    TF_ASSERT(status == TF_OK); /* the cover has been checked */
}

tf_status cpu_reduce(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_reduce *a = l->args;
    canon_range *cover = (canon_range *)(void *)d->shared;
    reduction r = {d, a, cover, a->cover.count / 2,
                   (a->x.shape[2] + REDUCE_COLUMNS - 1) / REDUCE_COLUMNS};
    for (uint32_t i = 0; i < r.count; i++)
        cover[i] = cover_at(&a->cover, i);
    float none;
    tf_status status = canon_reduce(&none, cover, r.count, (uint32_t)a->leaves, 0, &none, err);
    if (status != TF_OK) return status;
    dot_run(d, (size_t)l->rows * r.pieces, (uint64_t)l->rows * a->x.shape[2] * r.count,
            do_reduction, &r);
    return TF_OK;
}
